// Tasks from creation to result: successful and failing ones.

import assert from 'node:assert/strict';
import { INVALID_PARAMS, created, ended, ofTask, ok, refused } from './expect.mjs';
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js';

const METHOD_NOT_FOUND = -32601;
const INTERNAL_ERROR = -32603;
// The code of errors that the client itself raises.
const REQUEST_TIMEOUT = -32001;

// Returns the ids of all tasks that it made.
export async function succeeding({ client, tasks }) {
  const ids = [];

  const task = await created(tasks, 'wait', { ms: 300 }, { ttl: 60_000 });
  assert.equal(task.status, 'working');
  assert.equal(task.ttl, 60_000);
  assert.ok(!Number.isNaN(Date.parse(task.createdAt)));
  ids.push(task.taskId);
  ok('create: wait as a task');

  // T-22: at once, and flat.
  const seen = await tasks.getTask(task.taskId);
  assert.equal(seen.taskId, task.taskId);
  assert.equal(seen.createdAt, task.createdAt);
  assert.equal(seen.ttl, 60_000);
  ok('getTask right after the creation');

  // Sent while the task runs: the answer waits for its end. T-5: the same tool also runs plainly.
  const result = await tasks.getTaskResult(task.taskId, CallToolResultSchema);
  const plain = await client.callTool({ name: 'wait', arguments: { ms: 300 } });
  assert.deepEqual(ofTask(result, task.taskId), plain);
  assert.equal((await tasks.getTask(task.taskId)).status, 'completed');
  ok('getTaskResult waits, and is what the plain call gives');

  assert.deepEqual(await tasks.getTaskResult(task.taskId, CallToolResultSchema), result);
  ok('getTaskResult can be repeated');

  ids.push(await streamed(tasks, 'wait', { ms: 150 }, 'waited 150 ms'));
  ids.push(await streamed(tasks, 'count', { steps: 5, ms: 100 }, 'counted 5', 5));
  ids.push(await streamed(tasks, 'batch', { steps: 3, ms: 20 }, 'counted 3'));

  // TL-12: this client does not even send the request.
  // `callTool` knows the list of tools, and refuses by itself.
  const call = { method: 'tools/call', params: { name: 'batch', arguments: { steps: 1, ms: 0 } } };
  await refused(client.request(call, CallToolResultSchema), METHOD_NOT_FOUND);
  ok('batch, which is only ever a task, is refused as a plain call');

  // T-3
  const refusal = await firstError(tasks, 'echo', { text: 'x' });
  assert.equal(refusal.code, METHOD_NOT_FOUND, refusal.message);
  ok('echo, which is never a task, is refused as a task');

  const misfit = await firstError(tasks, 'wait', { ms: 'soon' });
  assert.equal(misfit.code, INVALID_PARAMS, misfit.message);
  ok('no task is made of wrong arguments');

  return ids;
}

// Follows a call to its result; returns the id of its task.
async function streamed(tasks, name, args, text, steps) {
  const progress = [];
  const options = { task: {}, ...(steps && { onprogress: step => progress.push(step.progress) }) };
  const events = [];
  for await (const event of tasks.callToolStream({ name, arguments: args }, undefined, options)) {
    events.push(event);
  }
  const kinds = events.map(event => event.type);
  assert.equal(kinds[0], 'taskCreated', JSON.stringify(events));
  assert.equal(kinds.at(-1), 'result', JSON.stringify(events) + (events.at(-1).error?.stack ?? ''));
  assert.ok(kinds.slice(1, -1).every(kind => kind === 'taskStatus'), kinds.join());
  assert.equal(events.at(-2).task.status, 'completed');
  const { taskId } = events[0].task;
  assert.deepEqual(ofTask(events.at(-1).result, taskId).content, [{ type: 'text', text }]);
  if (steps) {
    // P-3: the client's handler outlives the answer that named the task.
    assert.ok(progress.length > 0, 'the progress of a task is reported');
    assert.ok(progress.every((step, index) => index === 0 || step > progress[index - 1]), `progress rises: ${progress}`);
  }
  ok(`callToolStream: ${name} as a task, ${kinds.length} events${steps ? `, ${progress.length} reports of progress` : ''}`);
  return taskId;
}

// The error response to a call with task augmentation.
async function firstError(tasks, name, args) {
  const stream = tasks.callToolStream({ name, arguments: args }, undefined, { task: {} });
  const { value: first } = await stream.next();
  await stream.return();
  assert.equal(first.type, 'error', JSON.stringify(first));
  return first.error;
}

export async function failing({ client, tasks }) {
  const { taskId } = await created(tasks, 'fail', { message: 'out of paper' });
  const task = await ended(tasks, taskId);
  assert.equal(task.status, 'failed');
  assert.match(task.statusMessage ?? '', /out of paper/, 'T-19');
  const result = await tasks.getTaskResult(taskId, CallToolResultSchema);
  assert.equal(result.isError, true);
  const plain = await client.callTool({ name: 'fail', arguments: { message: 'out of paper' } });
  assert.deepEqual(ofTask(result, taskId), plain);
  ok('fail: the task is failed, says why, and its result is what the plain call gives');

  const events = [];
  for await (const event of tasks.callToolStream({ name: 'fail', arguments: { message: 'no' } }, undefined, { task: {} })) {
    events.push(event);
  }
  assert.equal(events.at(-1).type, 'error');
  // X-3: without a request for the result.
  assert.match(events.at(-1).error.message, /failed/);
  ok('callToolStream: fail ends as an error');

  const wrong = { code: -32050, message: 'the request makes no sense' };
  const faulty = await created(tasks, 'protocol_error', wrong);
  assert.equal((await ended(tasks, faulty.taskId)).status, 'failed');
  // X-8: the same error, which has no place to name its task.
  const fromTask = await refused(tasks.getTaskResult(faulty.taskId, CallToolResultSchema), wrong.code);
  const fromCall = await refused(client.callTool({ name: 'protocol_error', arguments: wrong }), wrong.code);
  assert.equal(fromTask.message, fromCall.message);
  assert.ok(fromTask.message.endsWith(wrong.message), fromTask.message);
  ok('protocol_error: getTaskResult is refused just as the plain call is');

  return [taskId, events[0].task.taskId, faulty.taskId];
}

export async function cancelling({ tasks }) {
  const { taskId } = await created(tasks, 'spin', { ms: 600_000 });
  const waiting = refused(tasks.getTaskResult(taskId, CallToolResultSchema), INTERNAL_ERROR);
  const cancelled = await tasks.cancelTask(taskId);
  assert.equal(cancelled.taskId, taskId);
  assert.equal(cancelled.status, 'cancelled', 'T-34');
  ok('cancelTask stops a busy tool');

  assert.match((await waiting).message, /cancelled/);
  assert.match((await refused(tasks.getTaskResult(taskId, CallToolResultSchema), INTERNAL_ERROR)).message, /cancelled/);
  ok('getTaskResult says so, to who waited and to who asks later');

  // L-10, T-27: a client that waits no longer ends its own wait, not the task.
  const long = await created(tasks, 'wait', { ms: 600_000 });
  await refused(tasks.getTaskResult(long.taskId, CallToolResultSchema, { timeout: 50 }), REQUEST_TIMEOUT);
  assert.equal((await tasks.getTask(long.taskId)).status, 'working');
  await tasks.cancelTask(long.taskId);
  ok('getTaskResult that times out in the client leaves the task alone');

  // A tool that would soon have ended anyway: its late result changes nothing.
  const brief = await created(tasks, 'wait', { ms: 400 });
  await tasks.cancelTask(brief.taskId);
  const later = await created(tasks, 'wait', { ms: 600 });
  await tasks.getTaskResult(later.taskId, CallToolResultSchema);
  for (const id of [taskId, brief.taskId]) {
    assert.equal((await tasks.getTask(id)).status, 'cancelled');
  }
  ok('cancelled tasks stay cancelled');

  for (const id of [later.taskId, taskId]) {
    await refused(tasks.cancelTask(id), INVALID_PARAMS);
  }
  ok('cancelTask of a finished and of a cancelled task is refused');

  return [taskId, long.taskId, brief.taskId, later.taskId];
}
