// Runs the official TypeScript client, without tasks, against a host with the bridge (see bridged.mjs):
//
//     node bridge.mjs SCENARIO PARAMS http URL

import { ErrorCode } from '@modelcontextprotocol/sdk/types.js';
import { run } from './bridged.mjs';
import { connect } from './connect.mjs';

const [scenario, params, ...target] = process.argv.slice(2);
const session = await connect(target);
session.call = (name, args, options) => session.client.callTool({ name, arguments: args }, undefined, options);
session.isTimeout = error => error.code === ErrorCode.RequestTimeout;
await run(session, scenario, JSON.parse(params));
