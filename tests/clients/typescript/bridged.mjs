// The scenarios of clients without tasks on a host with the bridge, for both TypeScript clients:
//
//     node bridge.mjs … SCENARIO PARAMS http URL
//
// The host serves the plugin `probe` and the fixture `effects`. PARAMS is JSON: `name` and `arguments` of the
// call, and anything else that the scenario needs. Prints one line for each check, and at the end a
// summary as JSON; the first failure ends it with status 1.

import assert from 'node:assert/strict';
import { ok } from './expect.mjs';

const text = result => result.content[0].text;

// The call that the text of a hand-off asks for.
function instruction(result) {
  const [, name, args] = text(result).match(/call (\w+) with (\{.*?\})/) ?? assert.fail(text(result));
  return { name, args: JSON.parse(args) };
}

// Waits until a task ends; returns its result and the number of waits.
async function collected(call, { name, args }, options) {
  for (let waits = 1; ; waits += 1) {
    const result = await call(name, args, options);
    if (!/is still running/.test(text(result))) return { waits, result };
  }
}

// The tool has an output schema. The client checks each result against it, including a hand-off.
async function handsOff({ client, call }, { name, arguments: args }) {
  const { tools } = await client.listTools();
  assert.ok(tools.find(tool => tool.name === name).outputSchema, 'the list has its output schema');
  const begun = performance.now();
  const handedOff = await call(name, args);
  const after = (performance.now() - begun) / 1000;
  const next = instruction(handedOff);
  assert.ok(!handedOff.isError);
  assert.deepEqual(handedOff.structuredContent.task_handoff, {
    task_id: next.args.task_id,
    status: 'working',
    next_tool: next.name,
  });
  ok(`the call is handed off after ${after} s`);

  const { waits, result } = await collected(call, next);
  assert.match(text(result), /is done/);
  assert.ok(!result.isError);
  assert.deepEqual(result.structuredContent, { key: args.key, attempt: 1, word: null });
  ok(`${next.name} has the result`);

  const quick = await call(name, { ...args, key: `${args.key}-quick`, ms: 0 });
  assert.deepEqual(quick.structuredContent, { ...result.structuredContent, key: `${args.key}-quick` });
  ok('the client accepts the result of a short call, and a collected result is equal to it');
  return { after, waits };
}

// The first client refuses to call a tool that is listed as `required`.
async function callsRequired({ client, call }, { name, arguments: args }) {
  await client.listTools();
  const result = await call(name, args);
  assert.ok(!result.isError, text(result));
  return { text: text(result) };
}

async function timesOut({ client, call, isTimeout }, { name, arguments: args, timeout }) {
  await assert.rejects(call(name, args, { timeout }), isTimeout);
  // The cancellation was sent before this request.
  await client.ping();
  ok(`the client gives up after ${timeout} ms`);
  return {};
}

// Measures the time from the cancellation until the host runs nothing.
async function aborts({ call }, { name, arguments: args, after, metrics }) {
  const controller = new AbortController();
  const rejected = assert.rejects(call(name, args, { signal: controller.signal }));
  await new Promise(resolve => setTimeout(resolve, after));
  while ((await runs(metrics)) < 1);
  const aborted = performance.now();
  controller.abort();
  await rejected;
  while ((await runs(metrics)) > 0);
  const stopped = performance.now() - aborted;
  ok(`the tool stops ${stopped} ms after the cancellation`);
  return { stopped };
}

async function runs(metrics) {
  const body = await (await fetch(metrics)).text();
  return Number(body.match(/^toolyard_runs (\d+)$/m)[1]);
}

// Each progress message resets the timeout of its request.
async function progresses({ call }, { name, arguments: args, timeout }) {
  const heard = [];
  const options = () => {
    const values = [];
    heard.push(values);
    return { timeout, resetTimeoutOnProgress: true, onprogress: ({ progress }) => values.push(progress) };
  };
  const handedOff = await call(name, args, options());
  const { result } = await collected(call, instruction(handedOff), options());
  for (const values of heard) {
    assert.ok(values.length > 0);
    assert.ok(values.every((value, at) => at === 0 || value > values[at - 1]), `progress rises: ${values}`);
  }
  ok('progress keeps both requests alive');
  return { text: result.content[1].text, heard };
}

const SCENARIOS = { handsOff, callsRequired, timesOut, aborts, progresses };

// `session` contains the client, `call(name, args, options)`, `isTimeout(error)`, the complaints
// and `close`.
export async function run(session, scenario, params) {
  try {
    const summary = await SCENARIOS[scenario](session, params);
    assert.deepEqual(session.complaints, [], 'the client complained');
    console.log(JSON.stringify(summary));
  } finally {
    await session.close();
  }
}
