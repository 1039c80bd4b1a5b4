// Runs the official TypeScript client against a host, to read what it offers besides tools:
//
//     node offers.mjs http URL
//     node offers.mjs stdio COMMAND [ARG…]
//
// The host serves the fixtures `conformance` and `script`. Prints one line for each check; the first failure ends it with status 1.

import assert from 'node:assert/strict';
import { LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { connect } from './connect.mjs';
import { INVALID_PARAMS, ok, refused } from './expect.mjs';

const RESOURCE_NOT_FOUND = -32002;

const target = process.argv.slice(2);
const session = await connect(target);
const { client } = session;

// All items of a list, from all pages.
async function all(list, key) {
  const found = [];
  let cursor;
  do {
    const page = await list(cursor === undefined ? undefined : { cursor });
    found.push(...page[key]);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return found;
}

async function resources() {
  const uris = (await all(params => client.listResources(params), 'resources')).map(resource => resource.uri);
  for (const uri of ['test://static-text', 'test://static-binary', 'test://watched-resource']) {
    assert.ok(uris.includes(uri), uri);
  }
  const templates = await all(params => client.listResourceTemplates(params), 'resourceTemplates');
  assert.ok(templates.some(template => template.uriTemplate === 'test://template/{id}/data'));
  ok(`resources: ${uris.length} and ${templates.length} templates`);

  const [words] = (await client.readResource({ uri: 'test://static-text' })).contents;
  assert.equal(words.text, 'This is the content of the static text resource.');
  const [picture] = (await client.readResource({ uri: 'test://static-binary' })).contents;
  assert.equal(picture.mimeType, 'image/png');
  assert.equal(Buffer.from(picture.blob, 'base64').toString('latin1', 1, 4), 'PNG');
  const [filled] = (await client.readResource({ uri: 'test://template/7/data' })).contents;
  assert.equal(JSON.parse(filled.text).id, '7');
  ok('resources: text, bytes and one of a template');

  const missing = await refused(client.readResource({ uri: 'test://none' }), RESOURCE_NOT_FOUND);
  assert.deepEqual(missing.data, { uri: 'test://none' });
  ok('resources: what is not there is said to be not there');

  await client.subscribeResource({ uri: 'test://watched-resource' });
  await client.unsubscribeResource({ uri: 'test://watched-resource' });
  ok('resources: subscribe and unsubscribe');
}

async function prompts() {
  const names = (await all(params => client.listPrompts(params), 'prompts')).map(prompt => prompt.name);
  assert.ok(names.includes('test_simple_prompt') && names.includes('test_prompt_with_arguments'), names.join());
  const simple = await client.getPrompt({ name: 'test_simple_prompt' });
  assert.equal(simple.messages[0].content.text, 'This is a simple prompt for testing.');
  const filled = await client.getPrompt({ name: 'test_prompt_with_arguments', arguments: { arg1: 'a', arg2: 'b' } });
  assert.match(filled.messages[0].content.text, /arg1='a', arg2='b'/);
  ok(`prompts: ${names.length}; two of them with their messages`);

  await refused(client.getPrompt({ name: 'no such prompt' }), INVALID_PARAMS);
  await refused(client.getPrompt({ name: 'test_prompt_with_arguments' }), INVALID_PARAMS);
  ok('prompts: an unknown one, and one without its arguments, are refused');

  const { completion } = await client.complete({
    ref: { type: 'ref/prompt', name: 'test_prompt_with_arguments' },
    argument: { name: 'arg1', value: 'par' },
  });
  assert.ok(Array.isArray(completion.values) && completion.values.length <= 100);
  await refused(
    client.complete({ ref: { type: 'ref/prompt', name: 'none' }, argument: { name: 'a', value: '' } }),
    INVALID_PARAMS,
  );
  ok(`completion: ${completion.values.length} values`);
}

async function logs() {
  const heard = [];
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => heard.push(params));
  const log = level => ({ log: { level, logger: 'l', data: { level } } });
  const call = () =>
    client.callTool({
      name: 'script',
      arguments: { steps: [log('debug'), log('warning'), log('error')] },
    });
  await client.setLoggingLevel('warning');
  await call();
  assert.deepEqual(heard, ['warning', 'error'].map(level => ({ level, logger: 'l', data: { level } })));
  await client.setLoggingLevel('emergency');
  await call();
  assert.equal(heard.length, 2, 'nothing of this was so urgent');
  ok('logging: from the level on that was set');
}

try {
  ok(`connect over ${target[0]}`);
  await resources();
  await prompts();
  await logs();
  assert.deepEqual(session.complaints, [], 'the client complained');
} finally {
  await session.close();
}
