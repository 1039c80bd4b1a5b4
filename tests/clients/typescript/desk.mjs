// Runs the official TypeScript client against a host with the projects `desk-*`, and uses the tools of one of
// them:
//
//     node desk.mjs LANGUAGE http URL
//
// The project's inbox contains invoice.txt, and WEATHER_KEY is the key of the weather service, which the host
// has. Prints one line for each check; the first failure ends it with status 1.

import assert from 'node:assert/strict';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { connect } from './connect.mjs';
import { ok } from './expect.mjs';

const [language, ...target] = process.argv.slice(2);
const { client, complaints, close } = await connect(target, { elicitation: { form: {} } });

const forms = [];
client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
  forms.push(params);
  return { action: 'accept', content: { invoice: 'keep' } };
});

async function listed() {
  const names = [];
  let cursor;
  do {
    const page = await client.listTools({ cursor });
    names.push(...page.tools.map(tool => tool.name));
    cursor = page.nextCursor;
  } while (cursor);
  return names;
}

async function call(tool, args = {}) {
  const result = await client.callTool({ name: `${language}_${tool}`, arguments: args });
  assert.ok(!result.isError, JSON.stringify(result));
  assert.ok(!JSON.stringify(result).includes(process.env.WEATHER_KEY), 'the key is nowhere in the result');
  return result;
}

const texts = result => result.content.filter(block => block.type === 'text').map(block => block.text);

const names = await listed();
for (const tool of ['weather', 'chart', 'triage']) assert.ok(names.includes(`${language}_${tool}`), `${names}`);
ok('the tools are listed');

// The client also checks structured content against the output schema of the tool.
const weather = await call('weather', { city: 'Oslo' });
assert.deepEqual(weather.structuredContent, { city: 'Oslo', celsius: 7.5, sky: 'rain' });
assert.deepEqual(texts(weather), ['Oslo: 7.5 °C, rain']);
ok('the weather service gets the key from the host');

const chart = await call('chart', { title: 'Week', values: [{ label: 'a', value: 4 }] });
const image = chart.content.find(block => block.type === 'image');
assert.equal(image?.mimeType, 'image/png');
assert.equal(Buffer.from(image.data, 'base64').toString('latin1', 1, 4), 'PNG');
ok('a chart is an image');

const sorted = await call('triage');
assert.equal(forms.length, 1);
assert.deepEqual(forms[0].requestedSchema.properties.invoice.enum, ['keep', 'later', 'trash']);
assert.deepEqual(sorted.structuredContent, { moved: [{ file: 'invoice.txt', to: 'keep' }] });
ok('the form is answered');

assert.deepEqual(complaints, [], 'the client complained');
await close();
