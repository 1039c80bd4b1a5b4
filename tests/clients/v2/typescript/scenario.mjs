// Runs the official TypeScript client of the second generation against a host:
//
//     node scenario.mjs auto|legacy|pin http URL
//     node scenario.mjs auto|legacy|pin stdio COMMAND [ARG…]
//
// The host serves the `probe` plugin from the folder PLUGINS; the
// test copies the component NEWCOMER there while the client listens. Prints one line for each check; the
// first failure ends it with status 1.

import assert from 'node:assert/strict';
import { copyFile, rename } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { SdkErrorCode } from '@modelcontextprotocol/client';
import { INVALID_PARAMS, ok, refused } from '../../typescript/expect.mjs';
import { STATELESS, connect } from './connect.mjs';

const TASKS = 'io.modelcontextprotocol/tasks';
const METHOD_NOT_FOUND = -32601;
const MISSING_CAPABILITY = -32021;

const [mode, ...target] = process.argv.slice(2);
const stateless = mode !== 'legacy';

const text = result => result.content[0].text;

async function who({ client }) {
  assert.equal(client.getProtocolEra(), stateless ? 'modern' : 'legacy');
  assert.equal(client.getNegotiatedProtocolVersion(), stateless ? STATELESS : '2025-11-25');
  assert.equal(client.getServerVersion().name, 'toolyard');
  const { tasks, extensions } = client.getServerCapabilities();
  // 26B-4: each revision shows only its own tasks capability.
  assert.equal(tasks !== undefined, !stateless);
  assert.deepEqual(extensions?.[TASKS], stateless ? {} : undefined);
  ok(`connect in mode ${mode} over ${target[0]}`);
}

async function calls({ client, asked }) {
  const { tools } = await client.listTools();
  const names = tools.map(tool => tool.name);
  assert.equal(names.length, 12);
  assert.equal(new Set(names).size, 12, 'no tool is there twice');
  if (stateless) assert.ok(tools.every(tool => tool.execution === undefined), '26TL-1');
  ok('listTools: all tools');

  const echo = await client.callTool({ name: 'echo', arguments: { text: 'Grüße, 世界 🌍' } });
  assert.deepEqual(echo.content, [{ type: 'text', text: 'Grüße, 世界 🌍' }]);
  ok('callTool');

  const progress = [];
  const counted = await client.callTool(
    { name: 'count', arguments: { steps: 4, ms: 200 } },
    { onprogress: step => progress.push(step) },
  );
  assert.equal(text(counted), 'counted 4');
  assert.ok(progress.length > 0, 'a call of most of a second reports progress');
  const steps = [1, 2, 3, 4].map(step => ({ progress: step, total: 4, message: `step ${step} of 4` }));
  assert.deepEqual(progress, steps.slice(0, progress.length));
  ok(`callTool with progress (${progress.length} of 4 steps seen)`);

  const failed = await client.callTool({ name: 'fail', arguments: { message: 'out of paper' } });
  assert.equal(failed.isError, true);
  assert.equal(text(failed), 'out of paper');
  ok('a failure of the tool is a result');

  await refused(client.callTool({ name: 'no-such-tool', arguments: {} }), INVALID_PARAMS);
  await refused(client.callTool({ name: 'protocol_error', arguments: { code: 7, message: 'no' } }), 7);
  ok('an unknown tool, and a failure of the request, are errors');

  const asks = await client.callTool({ name: 'ask', arguments: { question: 'Six times nine?' } });
  assert.equal(text(asks), 'forty-two');
  const confirms = await client.callTool({ name: 'confirm', arguments: { question: 'Sure?' } });
  assert.equal(text(confirms), 'yes');
  assert.deepEqual(asked, ['Six times nine?', 'Sure?'], 'each question came once');
  ok(stateless ? 'questions are answered by calling again' : 'questions are answered in the middle of the call');

  const never = client.callTool({ name: 'batch', arguments: { steps: 1, ms: 0 } });
  await refused(never, stateless ? MISSING_CAPABILITY : METHOD_NOT_FOUND);
  ok('what is only ever a task is refused to who knows none');
}

async function givingUp({ client }) {
  const controller = new AbortController();
  const spinning = client.callTool(
    { name: 'count', arguments: { steps: 1_000_000, ms: 10 } },
    // The first step proves that it runs.
    { signal: controller.signal, onprogress: () => controller.abort() },
  );
  await assert.rejects(spinning);
  const echo = await client.callTool({ name: 'echo', arguments: { text: 'still there' } });
  assert.equal(text(echo), 'still there');
  ok('a call can be given up');
}

async function hearing({ client }) {
  const { PLUGINS, NEWCOMER } = process.env;
  const changed = new Promise(resolve => {
    client.setNotificationHandler('notifications/tools/list_changed', resolve);
  });
  const subscription = stateless ? await client.listen({ toolsListChanged: true }) : undefined;
  if (stateless) assert.deepEqual(subscription.honoredFilter, { toolsListChanged: true });
  const place = join(PLUGINS, basename(NEWCOMER));
  await copyFile(NEWCOMER, `${place}.partial`);
  await rename(`${place}.partial`, place);
  await changed;
  const { tools } = await client.listTools();
  assert.ok(tools.length > 12, 'the list is not the one that was kept');
  ok('tools/list_changed is heard, and the new list is another');
  await subscription?.close();
  if (stateless) assert.equal(await subscription.closed, 'local');
}

// This client rejects a task as a result, even if it declared the extension.
async function overcharged() {
  const session = await connect(mode, target, { extensions: { [TASKS]: {} } });
  try {
    const given = session.client.callTool({ name: 'batch', arguments: { steps: 1, ms: 0 } });
    await refused(given, stateless ? SdkErrorCode.UnsupportedResultType : METHOD_NOT_FOUND);
    ok(stateless ? 'a task is more than it can take' : '26B-4: the extension is nothing to `initialize`');
  } finally {
    await session.close();
  }
}

const session = await connect(mode, target, { elicitation: { form: {} } });
try {
  await who(session);
  await calls(session);
  await givingUp(session);
  await hearing(session);
  assert.deepEqual(session.complaints, [], 'the client complained');
  ok('the client had nothing to complain about');
} finally {
  await session.close();
}
await overcharged();
