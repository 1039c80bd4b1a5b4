/** `setTimeout` and its relatives, for an engine without them. `settled` in `engine.js` runs them. */
import * as host from "toolyard:plugin/host@0.1.0";

const timers = new Map();
let last = 0;

function timer(every, run, milliseconds = 0, values) {
  const period = Math.max(1, Number(milliseconds) || 0);
  last += 1;
  timers.set(last, { at: Date.now() + period, period: every ? period : 0, run: () => run(...values) });
  return last;
}

globalThis.setTimeout = (run, milliseconds, ...values) => timer(false, run, milliseconds, values);
globalThis.setInterval = (run, milliseconds, ...values) => timer(true, run, milliseconds, values);
globalThis.clearTimeout = globalThis.clearInterval = (id) => void timers.delete(id);

// Without a timer nothing can settle a promise: the call meets `limits.wall`, which the host names.
const NEVER = [0, { at: Number.MAX_SAFE_INTEGER, period: 0, run() {} }];

/** Sleeps until the next timer is due, and runs it. */
export function runNextTimer() {
  const [id, timer] = [...timers].reduce((one, next) => (next[1].at < one[1].at ? next : one), NEVER);
  host.sleep(Math.max(0, timer.at - Date.now()));
  if (timer.period > 0) timer.at = Date.now() + timer.period;
  else timers.delete(id);
  timer.run();
}
