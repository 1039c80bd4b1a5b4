// Clients of the host under test, each with the list of its errors.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

// `target` is ['http', URL] or ['stdio', COMMAND, ...ARGS]. The environment variable TOKEN is an access token
// for the URL.
export async function connect(target, capabilities = {}) {
  const transport = transportTo(target);
  // Strict: the client does not send a method whose capability the host does not declare.
  const client = new Client(
    { name: 'toolyard-tests-typescript', version: '1' },
    { capabilities, enforceStrictCapabilities: true },
  );
  const complaints = [];
  client.onerror = error => {
    if (!isLateProgress(error)) complaints.push(error);
  };
  await client.connect(transport);
  return {
    client,
    tasks: client.experimental.tasks,
    complaints,
    close: async () => {
      // A closed transport reports the streams that it cuts as errors.
      client.onerror = undefined;
      await transport.terminateSession?.();
      await client.close();
    },
  };
}

// This client handles a response at once, but a notification only a moment later. If it reads both in one
// chunk, the last progress notification arrives after its request was answered. The client drops it and
// reports an error; the host sent them in order.
function isLateProgress(error) {
  return /^Received a progress notification for an unknown token/.test(error.message);
}

function transportTo([kind, ...rest]) {
  const { TOKEN } = process.env;
  const headers = TOKEN ? { authorization: `Bearer ${TOKEN}` } : {};
  switch (kind) {
    case 'http':
      return new StreamableHTTPClientTransport(new URL(rest[0]), { requestInit: { headers } });
    case 'stdio':
      return new StdioClientTransport({ command: rest[0], args: rest.slice(1), stderr: 'inherit' });
    default:
      throw new Error('usage: scenario.mjs http URL | stdio COMMAND [ARG…]');
  }
}
