// Clients of the host under test, each with the list of its errors. `mode` selects the revision that they
// speak.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

export const STATELESS = '2026-07-28';

const USAGE = 'usage: … auto|legacy|pin http URL | stdio COMMAND [ARG…]';

// `target` is ['http', URL] or ['stdio', COMMAND, ...ARGS]. The environment variable TOKEN is an access token
// for the URL.
export async function connect(mode, target, capabilities = {}) {
  const client = new Client(
    { name: 'toolyard-tests-typescript', version: '2' },
    { capabilities, enforceStrictCapabilities: true, versionNegotiation: { mode: negotiation(mode) } },
  );
  const session = { client, asked: [], complaints: [] };
  client.onerror = error => {
    if (!isLateProgress(error)) session.complaints.push(error);
  };
  // One handler for both: a request of the host, and an entry of `inputRequests`.
  if (capabilities.elicitation) {
    client.setRequestHandler('elicitation/create', request => {
      session.asked.push(request.params.message);
      const { type } = request.params.requestedSchema.properties.answer;
      return { action: 'accept', content: { answer: type === 'boolean' ? true : 'forty-two' } };
    });
  }
  const transport = transportTo(target);
  await client.connect(transport);
  session.close = async () => {
    // A closed transport reports the streams that it cuts as errors.
    client.onerror = undefined;
    if (client.getProtocolEra() === 'legacy') await transport.terminateSession?.();
    await client.close();
  };
  return session;
}

// As in the tests of the previous client: a notification is handled a moment after it was read, when its
// request may already be answered.
function isLateProgress(error) {
  return /^Received a progress notification for an unknown token/.test(error.message);
}

function negotiation(mode) {
  switch (mode) {
    case 'auto':
    case 'legacy':
      return mode;
    case 'pin':
      return { pin: STATELESS };
    default:
      throw new Error(USAGE);
  }
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
      throw new Error(USAGE);
  }
}
