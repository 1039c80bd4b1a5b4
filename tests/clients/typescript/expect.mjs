// Checks, each printed as a line.

import assert from 'node:assert/strict';

const RELATED_TASK = 'io.modelcontextprotocol/related-task';

export const INVALID_PARAMS = -32602;

export function ok(what) {
  console.log(`ok ${what}`);
}

// The error, with this code, that `promise` rejects with.
export async function refused(promise, code) {
  const outcome = await promise.then(
    value => ({ value }),
    error => ({ error }),
  );
  assert.ok(outcome.error, `expected error ${code}, got ${JSON.stringify(outcome.value)}`);
  assert.equal(outcome.error.code, code, outcome.error.stack);
  return outcome.error;
}

// Checks that a result names its task, and returns it without the name.
export function ofTask(result, taskId) {
  const { _meta, ...rest } = result;
  assert.deepEqual(_meta?.[RELATED_TASK], { taskId }, 'the result names its task');
  return rest;
}

// Polls a task until it has ended, as often as the host advises.
export async function ended(tasks, taskId) {
  for (;;) {
    const task = await tasks.getTask(taskId);
    if (!['working', 'input_required'].includes(task.status)) return task;
    await new Promise(resolve => setTimeout(resolve, task.pollInterval ?? 100));
  }
}

// Creates a task without waiting for it; returns it as created.
export async function created(tasks, name, args, task = {}) {
  const stream = tasks.callToolStream({ name, arguments: args }, undefined, { task });
  const { value: first } = await stream.next();
  // The generator polls only when the caller asks for the next event.
  await stream.return();
  assert.equal(first.type, 'taskCreated', `${name}: ${JSON.stringify(first)} ${first.error?.message ?? ''}`);
  return first.task;
}
