// Clients for the tasks extension, with what `createTaskSessionFromClient` needs for each generation.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const REVISION = '2026-07-28';
const { TOKEN } = process.env;
const headers = TOKEN ? { authorization: `Bearer ${TOKEN}` } : {};
const clientInfo = { name: 'toolyard-tests-ext-tasks', version: '1' };
const capabilities = { elicitation: { form: {} } };

export async function connect(generation, url) {
  const mode = generation === 'v1' ? 'legacy' : { pin: REVISION };
  const client = new Client(clientInfo, { capabilities, versionNegotiation: { mode } });
  client.onerror = (error) => console.error('client', error.message);
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  const options =
    generation === 'v1'
      ? {}
      : {
          rawDispatch: (request, dispatch = {}) => post(url, request, dispatch),
          v2RequestFraming: { protocolVersion: REVISION, clientInfo, clientCapabilities: capabilities },
        };
  return { client, options, close: () => client.close() };
}

let id = 0;

// The package leaves requests of v2 to its caller, because the client does not pass their results on.
async function post(url, { method, params }, { signal, context }) {
  id += 1;
  // The package has set some of these already, in another spelling.
  const sent = new Headers({ ...headers, ...context?.headers });
  sent.set('accept', 'application/json, text/event-stream');
  sent.set('content-type', 'application/json');
  sent.set('mcp-protocol-version', REVISION);
  sent.set('mcp-method', method);
  sent.set('mcp-name', params.name ?? params.taskId);
  const response = await fetch(url, {
    method: 'POST',
    signal,
    headers: sent,
    body: JSON.stringify({ jsonrpc: '2.0', id: `raw-${id}`, method, params }),
  });
  const body = await response.text();
  const message = response.headers.get('content-type')?.startsWith('text/event-stream')
    ? lastMessage(body)
    : JSON.parse(body);
  if (message.error) return { kind: 'error', error: message.error };
  return { kind: 'result', result: message.result };
}

// The response, after the notifications.
function lastMessage(stream) {
  const data = stream
    .split(/\r?\n/)
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice(5).trim())
    .filter(Boolean);
  return JSON.parse(data.at(-1));
}
