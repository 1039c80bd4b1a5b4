// A client without tasks.

import assert from 'node:assert/strict';
import { INVALID_PARAMS, ok, refused } from './expect.mjs';

export async function plain({ client }) {
  const { list, ...others } = client.getServerCapabilities().tasks;
  assert.deepEqual(others, { cancel: {}, requests: { tools: { call: {} } } });
  assert.deepEqual(list.filter.methods, ['tools/call'], 'SEP-1904');
  ok('capabilities: tasks can be listed, cancelled, and made of tools/call');

  await client.ping();
  ok('ping');

  // TL-2, TL-4, TL-8
  const tools = await allTools(client);
  const support = Object.fromEntries(tools.map(tool => [tool.name, tool.execution?.taskSupport ?? 'forbidden']));
  assert.equal(support.echo, 'forbidden');
  assert.equal(support.wait, 'optional');
  assert.equal(support.batch, 'required');
  for (const tool of tools) {
    assert.equal(tool.inputSchema.type, 'object', tool.name);
  }
  ok(`tools/list: ${tools.length} tools with their task support`);

  const echo = await client.callTool({ name: 'echo', arguments: { text: 'Grüße, 世界 🌍' } });
  assert.deepEqual(echo.content, [{ type: 'text', text: 'Grüße, 世界 🌍' }]);
  assert.ok(!echo.isError);
  ok('plain call');

  const progress = [];
  const counted = await client.callTool({ name: 'count', arguments: { steps: 4, ms: 200 } }, undefined, {
    onprogress: step => progress.push(step),
  });
  assert.deepEqual(counted.content, [{ type: 'text', text: 'counted 4' }]);
  // The client may lose the last steps: see `isLateProgress` in connect.mjs.
  assert.ok(progress.length > 0, 'a call of most of a second reports progress');
  const steps = [1, 2, 3, 4].map(step => ({ progress: step, total: 4, message: `step ${step} of 4` }));
  assert.deepEqual(progress, steps.slice(0, progress.length));
  ok(`plain call with progress (${progress.length} of 4 steps seen)`);

  await refused(client.callTool({ name: 'no-such-tool', arguments: {} }), INVALID_PARAMS);
  ok('unknown tool is refused');

  const wrong = await client.callTool({ name: 'echo', arguments: { text: 5 } });
  assert.equal(wrong.isError, true);
  assert.match(wrong.content[0].text, /text/);
  ok('wrong arguments are a result that the model can read');
}

async function allTools(client) {
  const tools = [];
  let cursor;
  do {
    const page = await client.listTools(cursor === undefined ? undefined : { cursor });
    tools.push(...page.tools);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return tools;
}
