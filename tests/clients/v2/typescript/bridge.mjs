// Runs the official TypeScript client of the second generation, without tasks, against a host with the bridge
// (see ../../typescript/bridged.mjs):
//
//     node bridge.mjs auto|legacy SCENARIO PARAMS http URL

import { SdkErrorCode } from '@modelcontextprotocol/client';
import { run } from '../../typescript/bridged.mjs';
import { connect } from './connect.mjs';

const [mode, scenario, params, ...target] = process.argv.slice(2);
const session = await connect(mode, target);
session.call = (name, args, options) => session.client.callTool({ name, arguments: args }, options);
session.isTimeout = error => error.code === SdkErrorCode.RequestTimeout;
await run(session, scenario, JSON.parse(params));
