// The tasks that a client can see.

import assert from 'node:assert/strict';
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { connect } from './connect.mjs';
import { INVALID_PARAMS, created, ok, refused } from './expect.mjs';

// The most tasks on a page.
const PAGE = 200;

export async function listing({ tasks }, others) {
  const ids = [...others];
  while (ids.length <= PAGE) {
    ids.push((await created(tasks, 'wait', { ms: 1 })).taskId);
  }
  const listed = [];
  let cursor;
  let pages = 0;
  do {
    const page = await tasks.listTasks(cursor);
    listed.push(...page.tasks.map(task => task.taskId));
    cursor = page.nextCursor;
    pages += 1;
  } while (cursor !== undefined);
  assert.deepEqual(listed.sort(), ids.sort(), 'T-32: every task once, and no other');
  assert.equal(pages, 2, 'pages');
  ok(`listTasks: ${listed.length} tasks on ${pages} pages`);

  await refused(tasks.listTasks('no cursor of yours'), INVALID_PARAMS);
  ok('listTasks with a made-up cursor is refused');
}

export async function unknown({ tasks }) {
  await allRefused(tasks, '11111111-2222-4333-8444-555555555555');
  await allRefused(tasks, 'no id at all');
  ok('unknown tasks are refused');
}

async function allRefused(tasks, id) {
  return [
    await refused(tasks.getTask(id), INVALID_PARAMS),
    await refused(tasks.getTaskResult(id, CallToolResultSchema), INVALID_PARAMS),
    await refused(tasks.cancelTask(id), INVALID_PARAMS),
  ].map(error => error.message);
}

// Over HTTP without authentication, a task belongs to its session (T-8).
export async function strangers(target, mine) {
  const other = await connect(target);
  try {
    const unknownId = '11111111-2222-4333-8444-555555555555';
    const { taskId } = await created(mine.tasks, 'wait', { ms: 600_000 });
    const asked = await allRefused(other.tasks, taskId);
    assert.deepEqual(asked, await allRefused(other.tasks, unknownId), 'nothing tells it from an unknown one');
    assert.deepEqual((await other.tasks.listTasks()).tasks, []);
    assert.equal((await mine.tasks.getTask(taskId)).status, 'working');
    await mine.tasks.cancelTask(taskId);
    ok('sessions: a client can neither see nor cancel the tasks of another');
    assert.deepEqual(other.complaints, []);
    return [taskId];
  } finally {
    await other.close();
  }
}

// Over stdio, a task belongs to the local user.
export async function again(target, taskId) {
  const later = await connect(target);
  try {
    assert.equal((await later.tasks.getTask(taskId)).status, 'completed');
    const result = await later.tasks.getTaskResult(taskId, CallToolResultSchema);
    assert.equal(result.content[0].text, 'waited 300 ms');
    ok('a later process still has the result');
    assert.deepEqual(later.complaints, []);
  } finally {
    await later.close();
  }
}
