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

/** A tool with arguments of type `A`; the schema `input` must describe the same type. */
export interface Tool<A> {
  title?: string;
  description?: string;
  input?: Schema;
  output?: Schema;
  annotations?: {
    readOnlyHint?: boolean;
    destructiveHint?: boolean;
    idempotentHint?: boolean;
    openWorldHint?: boolean;
  };
  /** Whether a call may become a task; "optional" by default. With "forbidden" every call is a plain call. */
  task?: "forbidden" | "optional" | "required";
  call(args: A): string | Result | object | void;
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
}

export const INVALID_PARAMS: -32602;

export class RpcError extends Error {
  constructor(code: number, message: string, data?: unknown);
  readonly code: number;
  readonly data?: unknown;
}

export class NoAnswer extends Error {
  readonly reason: "unsupported" | "timed-out" | "refused" | "invalid" | "too-late" | "cancelled";
}

/** Each tool has its own argument type, hence `any`. */
export function plugin(tools: Record<string, Tool<any>>): { listTools(): unknown[]; call(name: string, args: string): Result };
export function reply(text: string, structured?: object): Result;
export function textBlock(text: string): Content;
export function isOutOfMemory(error: unknown): boolean;
export function progress(done: number, total?: number, message?: string): void;
export function status(message: string): void;
export function log(level: Level, data: unknown, logger?: string): void;
export function sleep(milliseconds: number): void;
export function cancelled(): boolean;
export function callInfo(): CallInfo;
export function ask<T extends object = Record<string, unknown>>(
  key: string,
  message: string,
  properties: Record<string, Field>,
  required?: string[],
): T | null;
export function askAll(questions: Question[]): any[];
