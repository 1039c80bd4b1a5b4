/** The types of `toolyard.js`, which documents each item. */

/** A JSON Schema (2020-12). */
export type Schema = { readonly [key: string]: unknown };

/** A field of a form: one plain type that MCP elicitation allows. */
export type Field =
  | { type: "string"; title?: string; description?: string; enum?: readonly string[]; format?: string; minLength?: number; maxLength?: number; default?: string }
  | { type: "number" | "integer"; title?: string; description?: string; minimum?: number; maximum?: number; default?: number }
  | { type: "boolean"; title?: string; description?: string; default?: boolean };

export type Content =
  | { tag: "text"; val: { text: string; annotations: string | null; meta: string | null } }
  | { tag: "image" | "audio"; val: { data: Uint8Array; mimeType: string; annotations: string | null; meta: string | null } }
  | { tag: "resource-link" | "embedded-resource" | "other"; val: string };

export interface Result {
  content: Content[];
  structuredContent: string | null;
  isError: boolean;
  meta: string | null;
}

/** A schema of a library such as Zod that validates, and gives its JSON Schema (Standard JSON Schema). */
export interface LibrarySchema<Input = unknown, Output = unknown> {
  readonly "~standard": {
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    readonly jsonSchema: { readonly input: (options: any) => Schema; readonly output: (options: any) => Schema };
  };
}

/** The values that a schema describes. */
export type Values<S> = S extends LibrarySchema<any, infer Output> ? Output : any;

export type Returned = string | Content | Content[] | Result | object | void;

/** A tool. With a schema of a library `call` has its types; else its parameter must agree with `input`. */
export interface Tool<S = any> {
  title?: string;
  description?: string;
  input?: S;
  output?: Schema | LibrarySchema;
  annotations?: {
    readOnlyHint?: boolean;
    destructiveHint?: boolean;
    idempotentHint?: boolean;
    openWorldHint?: boolean;
  };
  /** Whether a call may become a task; "optional" by default. With "forbidden" every call is a plain call. */
  task?: "forbidden" | "optional" | "required";
  call(args: Values<S>): Returned | Promise<Returned>;
}

export interface Question {
  key: string;
  method: "elicitation/create" | "sampling/createMessage" | "roots/list";
  params: unknown;
}

export type Level = "debug" | "info" | "notice" | "warning" | "error" | "critical" | "alert" | "emergency";

export interface CallInfo {
  taskId?: string;
  attempt: number;
  deadline: string;
  tool?: string;
  clientCapabilities: Record<string, unknown>;
  subject?: string;
  traceparent?: string;
  tracestate?: string;
  state?: unknown;
}

export const INVALID_PARAMS: -32602;

export class ToolError extends Error {}

export class RpcError extends Error {
  constructor(code: number, message: string, data?: unknown);
  readonly code: number;
  readonly data?: unknown;
}

export class NoAnswer extends ToolError {
  readonly reason: "unsupported" | "timed-out" | "refused" | "invalid" | "too-late" | "cancelled";
}

export class CannotContinue extends ToolError {}

export function plugin(tools: Record<string, Tool>): { listTools(): unknown[]; call(name: string, args: string): unknown };
export function tool<S>(definition: Tool<S>): Tool<S>;
export function reply(text: string, structured?: object): Result;
export function textBlock(text: string): Content;
export function image(data: Uint8Array, mimeType?: string): Content;
export function audio(data: Uint8Array, mimeType?: string): Content;
export function file(uri: string, data: string | Uint8Array, mimeType?: string): Content;
export function link(uri: string, name: string, more?: object): Content;
export function base64(bytes: Uint8Array): string;
export function isOutOfMemory(error: unknown): boolean;
export function progress(done: number, total?: number, message?: string): void;
export function status(message: string): void;
export function log(level: Level, data: unknown, logger?: string): void;
export function sleep(milliseconds: number): void;
export function cancelled(): boolean;
export function effects(): void;
export function callInfo(): CallInfo;
export function continueWith(state: unknown): never;
export function restored<T = unknown>(): T | undefined;
export function ask<S extends LibrarySchema>(key: string, message: string, form: S): Values<S> | null;
export function ask<T extends object = Record<string, unknown>>(
  key: string,
  message: string,
  form: Record<string, Field>,
  required?: string[],
): T | null;
export function askAll(questions: Question[]): any[];

declare global {
  /** The environment variables that the manifest grants. */
  var process: { readonly env: Readonly<Record<string, string | undefined>> };
}
