// Starts a host twice, as this client does over stdio before it knows the host's revision: once to ask, once
// for use. The second host creates a task, which is the first action that registers it among the hosts of a
// data folder.
//
//     node probing.mjs COMMAND [ARG…]

import { SdkErrorCode } from '@modelcontextprotocol/client';
import { ok, refused } from '../../typescript/expect.mjs';
import { connect } from './connect.mjs';

const target = ['stdio', ...process.argv.slice(2)];
const session = await connect('auto', target, { extensions: { 'io.modelcontextprotocol/tasks': {} } });
try {
  const made = session.client.callTool({ name: 'batch', arguments: { steps: 1, ms: 0 } });
  await refused(made, SdkErrorCode.UnsupportedResultType);
  ok('a task was made');
} finally {
  await session.close();
}
