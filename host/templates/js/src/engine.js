/** What differs between the JavaScript engines. This one is StarlingMonkey. */

/** A number as the engine takes it for a 64-bit parameter. */
export const u64 = BigInt;

/** Waits for the promise of a call. */
export async function settled(promise) {
  // The engine gives up when nothing is left that could settle the promise. With this timer the call
  // meets `limits.wall` instead, which the host names.
  const alive = setInterval(() => {}, 60_000);
  try {
    return await promise;
  } finally {
    clearInterval(alive);
  }
}
