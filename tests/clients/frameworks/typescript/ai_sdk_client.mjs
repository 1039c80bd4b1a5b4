// The AI SDK as a client: node ai_sdk_client.mjs URL
//
// The cases of ../cases.py, for a framework in TypeScript.

import { createRequire } from 'node:module';
import { createMCPClient, ElicitationRequestSchema } from '@ai-sdk/mcp';

const VERSION = createRequire(import.meta.url)('@ai-sdk/mcp/package.json').version;
const NEXT = /call (\w+) (?:again )?with (\{[^{}]*\})/;
const asked = [];
let failed = 0;

function line(name, verdict, remark) {
  if (verdict === 'failed') failed += 1;
  const fields = ['@ai-sdk/mcp', VERSION, 'HTTP', name, verdict, String(remark).replace(/\s+/g, ' ')];
  console.log(fields.join('\t'));
}

function expect(condition, what) {
  if (!condition) throw new Error(`unexpected: ${JSON.stringify(what)}`);
}

const texts = (result) =>
  (result.content ?? [])
    .filter((block) => block.type === 'text')
    .map((block) => block.text)
    .join('\n');

const client = await createMCPClient({
  transport: { type: 'http', url: process.argv[2] },
  capabilities: { elicitation: {} },
});
client.onElicitationRequest(ElicitationRequestSchema, ({ params }) => {
  asked.push(params.message);
  const fields = Object.entries(params.requestedSchema.properties);
  const content = fields.map(([key, field]) => [key, field.type === 'boolean' ? true : 'blue']);
  return { action: 'accept', content: Object.fromEntries(content) };
});
const tools = await client.tools();
const call = (name, args) => tools[name].execute(args, { toolCallId: 'call-1', messages: [] });

async function question(tool, result) {
  const text = `Which word does ${tool} get?`;
  const outcome = await call(tool, { question: text });
  expect(asked.length === 1 && asked.pop() === text && texts(outcome) === result, outcome);
  return 'asked by elicitation';
}

const cases = {
  async list() {
    const missing = ['ask', 'csv_profile', 'echo', 'jq', 'wait', 'task_wait', 'task_cancel'].filter(
      (name) => !(name in tools),
    );
    expect(missing.length === 0, missing);
    return `${Object.keys(tools).length} tools`;
  },
  async 'structured output'() {
    const outcome = await call('jq', { program: '{total: (map(.n) | add)}', input: [{ n: 20 }, { n: 22 }] });
    const expected = JSON.stringify({ outputs: [{ total: 42 }], truncated: false });
    expect(JSON.stringify(outcome.structuredContent) === expected, outcome);
    return 'structured content';
  },
  async 'tool error'() {
    const outcome = await call('fail', { message: 'out of paper' });
    expect(outcome.isError === true && texts(outcome).includes('out of paper'), outcome);
    return 'a result';
  },
  async 'JSON-RPC error'() {
    // The client offers listed tools only, so this is a call below them.
    const outcome = await client.callTool({ name: 'no_such_tool', arguments: {} }).then(
      (result) => result,
      (error) => error,
    );
    expect(outcome instanceof Error && outcome.message.includes('no_such_tool'), outcome);
    return `${outcome.name}: ${outcome.message}`;
  },
  'question (ask)': () => question('ask', 'blue'),
  'question (confirm)': () => question('confirm', 'yes'),
  async '7 s call'() {
    const begun = performance.now();
    const seconds = () => (performance.now() - begun) / 1000;
    let outcome = await call('wait', { ms: 7000 });
    const after = seconds();
    expect(after >= 2.9 && after < 7 && texts(outcome).includes('Nothing has failed'), outcome);
    let waits = 0;
    while (texts(outcome).includes('is still running')) {
      expect(waits < 20, outcome);
      const [, name, args] = NEXT.exec(texts(outcome));
      expect(name === 'task_wait', outcome);
      outcome = await call(name, JSON.parse(args));
      waits += 1;
    }
    expect(texts(outcome).endsWith('waited 7000 ms') && seconds() >= 7, outcome);
    return `handed off after ${after.toFixed(1)} s, result after ${waits} task_wait and ${seconds().toFixed(1)} s`;
  },
};

for (const [name, run] of Object.entries(cases)) {
  try {
    line(name, 'ok', await run());
  } catch (error) {
    console.error(error);
    line(name, 'failed', error.message.slice(0, 600));
  }
}
await client.close();
process.exit(failed ? 1 : 0);
