// Clients of the host under test, each with the list of what it complained about.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

// `target` is ['http', URL] or ['stdio', COMMAND, ...ARGS].
export async function connect(target, capabilities = {}) {
  const transport = transportTo(target);
  // Strict: a method whose capability the host does not declare is not even sent.
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

// This client handles an answer at once, but a notification only a moment later.
// If it reads both in one piece, the last report of progress finds its request
// answered already, is dropped, and is complained about; the host sent them in order.
function isLateProgress(error) {
  return /^Received a progress notification for an unknown token/.test(error.message);
}

function transportTo([kind, ...rest]) {
  switch (kind) {
    case 'http':
      return new StreamableHTTPClientTransport(new URL(rest[0]));
    case 'stdio':
      return new StdioClientTransport({ command: rest[0], args: rest.slice(1), stderr: 'inherit' });
    default:
      throw new Error('usage: scenario.mjs http URL | stdio COMMAND [ARG…]');
  }
}
