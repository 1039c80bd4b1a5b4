// Runs the official TypeScript client against a host:
//
//     node scenario.mjs http URL
//     node scenario.mjs stdio COMMAND [ARG…]
//
// The host serves the `probe` plugin.
// Prints one line for each check; the first failure ends it with status 1.

import assert from 'node:assert/strict';
import { connect } from './connect.mjs';
import { ok } from './expect.mjs';
import { again, listing, strangers, unknown } from './owners.mjs';
import { plain } from './plain.mjs';
import { cancelling, failing, succeeding } from './tasks.mjs';

const target = process.argv.slice(2);
const session = await connect(target);
ok(`connect over ${target[0]}`);
let first;
try {
  await plain(session);
  const ids = await succeeding(session);
  first = ids[0];
  ids.push(...(await failing(session)));
  ids.push(...(await cancelling(session)));
  if (target[0] === 'http') ids.push(...(await strangers(target, session)));
  await unknown(session);
  await listing(session, ids);
  assert.deepEqual(session.complaints, [], 'the client complained');
  ok('the client had nothing to complain about');
} finally {
  await session.close();
}
if (target[0] === 'stdio') await again(target, first);
