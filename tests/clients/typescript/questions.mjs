// Runs the official TypeScript client against a host, and answers the host's questions:
//
//     node questions.mjs http URL
//     node questions.mjs stdio COMMAND [ARG…]
//
// The host serves the plugin `probe` and the fixture `script`. Prints one line for each
// check; the first failure ends it with status 1.

import assert from 'node:assert/strict';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ElicitationCompleteNotificationSchema,
  ListRootsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { connect } from './connect.mjs';
import { ok } from './expect.mjs';

const RELATED_TASK = 'io.modelcontextprotocol/related-task';
const EVERYTHING = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
const FORM = {
  type: 'object',
  properties: { colour: { type: 'string', enum: ['red', 'green'], default: 'green' } },
  required: ['colour'],
};

const target = process.argv.slice(2);

// A client that answers with `answer`, and records the questions.
async function asked(answer, capabilities = EVERYTHING) {
  const session = await connect(target, capabilities);
  session.requests = [];
  const answering = method => request => {
    session.requests.push(request);
    return answer(request, method);
  };
  if (capabilities.elicitation) session.client.setRequestHandler(ElicitRequestSchema, answering('elicitation'));
  if (capabilities.sampling) session.client.setRequestHandler(CreateMessageRequestSchema, answering('sampling'));
  if (capabilities.roots) session.client.setRequestHandler(ListRootsRequestSchema, answering('roots'));
  return session;
}

async function within(session, check) {
  try {
    await check(session);
    assert.deepEqual(session.complaints, [], 'the client complained');
  } finally {
    await session.close();
  }
}

const text = result => result.content[0].text;
const accept = content => ({ action: 'accept', content });
const ask = (key, method, params) => ({ key, method, params });

// The host answers `script` with the outcome of each step.
async function steps(client, ...steps) {
  const result = await client.callTool({ name: 'script', arguments: { steps } });
  return JSON.parse(text(result));
}

// Returns the events of a task and its result.
async function followed({ tasks }, name, args) {
  const events = [];
  for await (const event of tasks.callToolStream({ name, arguments: args }, undefined, { task: {} })) {
    events.push(event);
  }
  const last = events.at(-1);
  assert.equal(last.type, 'result', `${name}: ${JSON.stringify(events)} ${last.error?.stack ?? ''}`);
  return { taskId: events[0].task.taskId, events, result: last.result };
}

await within(await asked(() => accept({ answer: 'forty-two' })), async session => {
  ok(`connect over ${target[0]}`);
  const plain = await session.client.callTool({ name: 'ask', arguments: { question: 'Six times nine?' } });
  assert.equal(text(plain), 'forty-two');
  assert.equal(session.requests[0].params.message, 'Six times nine?');
  assert.equal(session.requests[0].params._meta?.[RELATED_TASK], undefined, 'a plain call has no task');
  ok('callTool: ask is answered in the middle of the call');

  // IR-10: at `input_required` the client requests the result and stops polling.
  const { taskId, result } = await followed(session, 'ask', { question: 'And as a task?' });
  assert.equal(text(result), 'forty-two');
  const [, request] = session.requests;
  assert.equal(request.params.message, 'And as a task?');
  assert.deepEqual(request.params._meta[RELATED_TASK], { taskId });
  assert.equal(session.requests.length, 2, 'each question came once');
  assert.equal((await session.tasks.getTask(taskId)).status, 'completed');
  ok('callToolStream: ask is answered by way of the result');
});

for (const [answer, said] of [
  [accept({ answer: true }), 'yes'],
  [accept({ answer: false }), 'no'],
  [{ action: 'decline' }, 'declined'],
  [{ action: 'cancel' }, 'cancelled'],
]) {
  await within(await asked(() => answer), async session => {
    assert.equal(text((await followed(session, 'confirm', { question: 'Sure?' })).result), said);
    ok(`confirm, answered with ${answer.action}: ${said}`);
  });
}

const many = [
  ask('form', 'elicitation/create', { message: 'Which?', requestedSchema: FORM }),
  ask('model', 'sampling/createMessage', {
    messages: [{ role: 'user', content: { type: 'text', text: 'Which?' } }],
    maxTokens: 50,
  }),
  ask('roots', 'roots/list', {}),
];
const answers = {
  elicitation: () => accept({ colour: 'red' }),
  sampling: () => ({ role: 'assistant', model: 'none', content: { type: 'text', text: 'Red.' } }),
  roots: () => ({ roots: [{ uri: 'file:///src', name: 'src' }] }),
};
const outcome = {
  form: accept({ colour: 'red' }),
  model: { role: 'assistant', model: 'none', content: { type: 'text', text: 'Red.' } },
  roots: { roots: [{ uri: 'file:///src', name: 'src' }] },
};

await within(await asked((_request, method) => answers[method]()), async session => {
  const [came] = await steps(session.client, { ask: many });
  assert.deepEqual(came, outcome);
  ok('callTool: a form, a sampling and the roots, at once');
  const { result } = await followed(session, 'script', { steps: [{ ask: many }, { ask: many.slice(0, 1) }] });
  assert.deepEqual(JSON.parse(text(result)), [outcome, { form: outcome.form }]);
  ok('callToolStream: the same, and a second round');
});

await within(await asked(() => ({ action: 'accept' })), async session => {
  const completed = [];
  session.client.setNotificationHandler(ElicitationCompleteNotificationSchema, notification => {
    completed.push(notification.params.elicitationId);
  });
  const url = ask('in', 'elicitation/create', { mode: 'url', message: 'Sign in', url: 'https://example.com/in' });
  await steps(session.client, { ask: [url] }, { complete: 'in' });
  assert.equal(session.requests[0].params.url, 'https://example.com/in');
  assert.deepEqual(completed, [session.requests[0].params.elicitationId]);
  ok('a page to open, and word that it is done');
});

await within(await asked(() => { throw new Error('not now'); }), async session => {
  const refused = await session.client.callTool({ name: 'ask', arguments: { question: '?' } });
  assert.equal(refused.isError, true);
  assert.match(text(refused), /refused.*not now/);
  ok('a refusal reaches the tool');
});

await within(await asked(() => assert.fail('it cannot be asked'), {}), async session => {
  const plain = await session.client.callTool({ name: 'ask', arguments: { question: '?' } });
  assert.equal(plain.isError, true);
  assert.match(text(plain), /not supported/);
  assert.deepEqual(session.requests, []);
  ok('a client that cannot be asked is not');
});
