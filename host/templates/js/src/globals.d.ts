/** The timers and text codecs of both engines, which ECMAScript 2023 does not have. */
export {};

declare global {
  function setTimeout<T extends unknown[]>(run: (...values: T) => void, milliseconds?: number, ...values: T): number;
  function setInterval<T extends unknown[]>(run: (...values: T) => void, milliseconds?: number, ...values: T): number;
  function clearTimeout(id: number | undefined): void;
  function clearInterval(id: number | undefined): void;
  function queueMicrotask(job: () => void): void;

  class TextEncoder {
    encode(text?: string): Uint8Array;
  }
  class TextDecoder {
    constructor(encoding?: string);
    decode(bytes?: Uint8Array | ArrayBuffer): string;
  }
}
