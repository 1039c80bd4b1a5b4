// The official requester of the tasks extension, in one generation:
//
//     node ext_tasks.mjs v1|v2 URL
//
// v1 is 2025-11-25, v2 is 2026-07-28. TOKEN in the environment is an access token. The host serves `probe`, and a
// copy of it whose tools resume, with the prefix `keep`. Prints a line for each case as ../run.py does. The line
// `@restart` asks the caller to kill the host and to start it again; the answer is a line on stdin.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { createTaskSessionFromClient } from '@modelcontextprotocol/ext-tasks/client';
import { connect } from './ext_tasks_session.mjs';

const [generation, url] = process.argv.slice(2);
const require = createRequire(import.meta.url);
const { dependencies } = require('./package.json');
const VERSION = dependencies['@modelcontextprotocol/ext-tasks'];
const CLIENT = `ext-tasks ${generation}`;
const ENDPOINT = 'toolyard';
const INVALID_PARAMS = -32602;
const UNKNOWN = '11111111-2222-4333-8444-555555555555';
const TASK = { task: { preference: 'require' } };
// Longer than a step takes on the slowest machine.
const PATIENCE = 60_000;

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
let failed = 0;

function line(name, verdict, remark) {
  if (verdict === 'failed') failed += 1;
  console.log([CLIENT, VERSION, 'HTTP', name, verdict, String(remark).replace(/\s+/g, ' ')].join('\t'));
}

function expect(condition, what) {
  if (!condition) throw new Error(`unexpected: ${JSON.stringify(what) ?? what}`);
}

// A fault of the package, which the file ../expected may name.
class Finding extends Error {}

async function restart() {
  console.log('@restart');
  await answers.next();
}

function within(promise, what, patience = PATIENCE) {
  const { promise: late, reject } = withResolvers();
  const timer = setTimeout(() => reject(new Error(`${what}: nothing within ${patience / 1000} s`)), patience);
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function withResolvers() {
  const parts = {};
  parts.promise = new Promise((resolve, reject) => Object.assign(parts, { resolve, reject }));
  return parts;
}

// A session, with the questions that its handler was asked. `answer` makes the answer; without it, the
// question stays open until the session closes.
async function open(answer) {
  const asked = [];
  const { client, options, close } = await connect(generation, url);
  const session = createTaskSessionFromClient(client, {
    endpointId: ENDPOINT,
    ...options,
    onInputRequest: (request) => {
      asked.push(request.params.message);
      return answer ? answer() : new Promise(() => {});
    },
  });
  // To leave means to go without a word, as a client that is killed; `session.close` answers open questions.
  return { session, asked, leave: close, close: () => session.close().then(close) };
}

const accept = () => ({ action: 'accept', content: { answer: true } });
const decline = () => ({ action: 'decline' });
const text = (outcome) => outcome.result?.content?.map((block) => block.text).join('\n');

async function called(opened, name, args, options = {}) {
  const execution = await within(opened.session.callTool(name, args, options), `the call of ${name}`);
  const { outcome } = await within(execution.settle(), `the outcome of ${name}`);
  return { kind: execution.kind, outcome };
}

// The error of a request, as `code: message`.
async function refused(request) {
  const error = await within(request, 'the refusal').then(
    (value) => expect(false, value ?? 'no error'),
    (reason) => reason,
  );
  return { code: error.code ?? error.cause?.code, message: error.message };
}

async function questioned(answer, expected) {
  const opened = await open(answer);
  try {
    const { kind, outcome } = await called(opened, 'confirm', { question: 'Really?' }, TASK);
    expect(kind === 'task' && text(outcome) === expected && opened.asked.join() === 'Really?', outcome);
    return `asked once, "${expected}"`;
  } finally {
    await opened.close();
  }
}

async function until(what, condition) {
  const deadline = Date.now() + PATIENCE;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`${what}: not within ${PATIENCE / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

// Starts a task, kills the host, and takes the task up again in a new session.
async function killed(name, args, { ready, answer = accept }) {
  const first = await open();
  const execution = await within(first.session.callTool(name, args, TASK), `the call of ${name}`);
  expect(execution.kind === 'task', execution.kind);
  const reference = execution.serializeReference();
  execution.result().catch(() => {});
  await until('the task is ready', () => ready(first, execution.handle.taskId));
  await first.leave();
  await restart();
  const second = await open(answer);
  try {
    const resumed = await within(second.session.resumeTask(reference), 'the task in the new session');
    const { outcome } = await within(resumed.settle(), 'the outcome after the restart');
    return { outcome, asked: second.asked };
  } finally {
    await second.close();
  }
}

const plain = await open(accept);
const running = (opened, id) =>
  opened.session.task(id).snapshot().then(({ status }) => status === 'working');
const asks = (opened) => opened.asked.length > 0;

const cases = {
  async immediate() {
    const { kind, outcome } = await called(plain, 'echo', { text: 'hello' });
    expect(kind === 'immediate' && text(outcome) === 'hello', outcome);
    return kind;
  },
  async 'polled task'() {
    const { kind, outcome } = await called(plain, 'wait', { ms: 2500 }, TASK);
    expect(kind === 'task' && text(outcome) === 'waited 2500 ms', outcome);
    return kind;
  },
  'input accepted': () => questioned(accept, 'yes'),
  'input declined': () => questioned(decline, 'declined'),
  async cancel() {
    const execution = await within(plain.session.callTool('wait', { ms: 600_000 }, TASK), 'the call');
    const begun = performance.now();
    await within(execution.cancel(), 'the cancellation');
    const ms = Math.round(performance.now() - begun);
    const { status } = await within(plain.session.task(execution.handle.taskId).snapshot(), 'the state');
    expect(status === 'cancelled', status);
    return `${ms} ms`;
  },
  async 'tool error'() {
    const { outcome } = await called(plain, 'fail', { message: 'out of paper' });
    expect(outcome.result?.isError === true && text(outcome) === 'out of paper', outcome);
    return 'a result with isError';
  },
  async 'protocol error'() {
    const { code, message } = await refused(
      called(plain, 'protocol_error', { code: -31999, message: 'out of paper' }).then(({ outcome }) => {
        throw outcome.error ?? new Error(JSON.stringify(outcome));
      }),
    );
    expect(code === -31999 && message.includes('out of paper'), { code, message });
    return `${code}: ${message}`;
  },
  async 'forged references'() {
    const execution = await within(plain.session.callTool('batch', { steps: 1, ms: 1 }, TASK), 'the call');
    await within(execution.settle(), 'the outcome');
    const reference = execution.serializeReference();
    const id = reference.taskId;
    const last = id.endsWith('0') ? '1' : '0';
    for (const taskId of [UNKNOWN, `${id.slice(0, -1)}${last}`, `${id}0`, '../../etc/passwd']) {
      const { code, message } = await refused(plain.session.resumeTask({ ...reference, taskId }));
      expect(code === INVALID_PARAMS, { taskId, code, message });
    }
    return `4 refused with ${INVALID_PARAMS}`;
  },
  async 'foreign endpoint'() {
    const reference = { endpointId: 'elsewhere', generation, taskId: UNKNOWN, originalOperation: 'tools/call' };
    const { message } = await refused(plain.session.resumeTask(reference));
    expect(message.includes('different endpoint'), message);
    return message;
  },
  async 'cancel of an unknown task'() {
    const { code } = await refused(plain.session.cancelTask(UNKNOWN));
    expect(code === INVALID_PARAMS, code);
    return String(code);
  },
  async 'kill -9, resuming tool'() {
    const { outcome } = await killed('keep_wait', { ms: 6000 }, { ready: running });
    expect(text(outcome) === 'waited 6000 ms', outcome);
    return text(outcome);
  },
  async 'kill -9, plain tool'() {
    const { outcome } = await killed('wait', { ms: 600_000 }, { ready: running }).catch((error) => ({
      outcome: { status: 'failed', error },
    }));
    const { message } = outcome.error ?? {};
    expect(outcome.status === 'failed' && /stopped unexpectedly/.test(message), message ?? outcome);
    return message;
  },
  async 'kill -9, question'() {
    const { outcome, asked } = await killed('keep_confirm', { question: 'Still?' }, { ready: asks });
    if (text(outcome) === 'cancelled' && asked.length === 0) throw new Finding('cancelled unasked');
    expect(text(outcome) === 'yes' && asked.join() === 'Still?', { outcome, asked });
    return 'asked again, "yes"';
  },
};

for (const [name, run] of Object.entries(cases)) {
  try {
    line(name, 'ok', await run());
  } catch (error) {
    console.error(name, error);
    const found = error instanceof Finding ? `${name}: ${error.message}` : name;
    line(found, 'failed', error.message.slice(0, 600));
  }
}
await plain.close().catch(() => {});
process.exit(failed ? 1 : 0);
