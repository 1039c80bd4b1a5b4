/**
 * What differs between the JavaScript engines. This one is QuickJS, which cannot wait for a promise
 * within a call. So the build turns `async` functions into generators, and promises are those of a
 * library, whose jobs run here.
 */
import { runNextTimer } from "./timers.js";
import PromiseOfLibrary from "promise-polyfill";
import { TextDecoder, TextEncoder } from "fast-text-encoding";

const jobs = [];
PromiseOfLibrary._immediateFn = (job) => void jobs.push(job);
Object.assign(globalThis, { TextDecoder, TextEncoder });
globalThis.Promise = PromiseOfLibrary;
globalThis.queueMicrotask = PromiseOfLibrary._immediateFn;

/** A number as the engine takes it for a 64-bit parameter. */
export const u64 = Number;

/** Waits for the promise of a call, and returns or throws what it settles with. */
export function settled(promise) {
  let outcome;
  promise.then(
    (value) => (outcome = { value }),
    (error) => (outcome = { error }),
  );
  for (;;) {
    while (jobs.length > 0) for (const job of jobs.splice(0)) job();
    if (outcome) break;
    runNextTimer();
  }
  if ("error" in outcome) throw outcome.error;
  return outcome.value;
}
