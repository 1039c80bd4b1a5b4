/** The interfaces of the Web that StarlingMonkey has, as far as tools need them. */
export {};

declare global {
  const console: Record<"debug" | "error" | "info" | "log" | "warn", (...values: unknown[]) => void>;
  const performance: { now(): number };
  const crypto: {
    getRandomValues<T extends Uint8Array>(array: T): T;
    randomUUID(): string;
    readonly subtle: { digest(algorithm: string, data: Uint8Array): Promise<ArrayBuffer> };
  };
  function atob(text: string): string;
  function btoa(text: string): string;
  function structuredClone<T>(value: T): T;

  type HeadersInit = Headers | Record<string, string> | [string, string][];
  class Headers {
    constructor(init?: HeadersInit);
    append(name: string, value: string): void;
    delete(name: string): void;
    get(name: string): string | null;
    has(name: string): boolean;
    set(name: string, value: string): void;
    [Symbol.iterator](): IterableIterator<[string, string]>;
  }

  class Blob {
    constructor(parts?: (string | Uint8Array | ArrayBuffer | Blob)[], options?: { type?: string });
    readonly size: number;
    readonly type: string;
    arrayBuffer(): Promise<ArrayBuffer>;
    text(): Promise<string>;
  }
  class File extends Blob {
    constructor(parts: (string | Uint8Array | ArrayBuffer | Blob)[], name: string, options?: { type?: string });
    readonly name: string;
  }
  class FormData {
    append(name: string, value: string | Blob, fileName?: string): void;
    get(name: string): string | File | null;
    set(name: string, value: string | Blob, fileName?: string): void;
  }
  class DOMException extends Error {
    constructor(message?: string, name?: string);
  }

  type BodyInit = string | Blob | FormData | Uint8Array | ArrayBuffer | URLSearchParams | ReadableStream;
  interface Body {
    readonly body: ReadableStream | null;
    readonly bodyUsed: boolean;
    arrayBuffer(): Promise<ArrayBuffer>;
    json(): Promise<any>;
    text(): Promise<string>;
  }
  interface RequestInit {
    method?: string;
    headers?: HeadersInit;
    body?: BodyInit | null;
    signal?: AbortSignal;
  }
  interface Request extends Body {}
  class Request {
    constructor(input: string | URL | Request, init?: RequestInit);
    readonly method: string;
    readonly url: string;
    readonly headers: Headers;
  }
  interface Response extends Body {}
  class Response {
    constructor(body?: BodyInit | null, init?: { status?: number; headers?: HeadersInit });
    readonly ok: boolean;
    readonly status: number;
    readonly headers: Headers;
  }
  function fetch(input: string | URL | Request, init?: RequestInit): Promise<Response>;

  class URL {
    constructor(url: string, base?: string | URL);
    hash: string;
    host: string;
    hostname: string;
    href: string;
    readonly origin: string;
    pathname: string;
    port: string;
    protocol: string;
    search: string;
    readonly searchParams: URLSearchParams;
  }
  class URLSearchParams {
    constructor(init?: string | Record<string, string> | [string, string][]);
    append(name: string, value: string): void;
    delete(name: string): void;
    get(name: string): string | null;
    getAll(name: string): string[];
    has(name: string): boolean;
    set(name: string, value: string): void;
    [Symbol.iterator](): IterableIterator<[string, string]>;
  }

  class ReadableStream<T = any> {
    getReader(): { read(): Promise<{ done: boolean; value: T | undefined }>; releaseLock(): void };
    pipeThrough<U>(through: { readable: ReadableStream<U>; writable: WritableStream }): ReadableStream<U>;
  }
  class WritableStream<T = any> {
    getWriter(): { write(value: T): Promise<void>; close(): Promise<void> };
  }
  class CompressionStream {
    constructor(format: "deflate" | "deflate-raw" | "gzip");
    readonly readable: ReadableStream<Uint8Array>;
    readonly writable: WritableStream<Uint8Array>;
  }
  class DecompressionStream extends CompressionStream {}

  class AbortSignal {
    static timeout(milliseconds: number): AbortSignal;
    readonly aborted: boolean;
  }
  class AbortController {
    readonly signal: AbortSignal;
    abort(reason?: unknown): void;
  }
}
