/**
 * The interface `host` of the contract in QuickJS, for functions that `toolyard.js` does not cover.
 * `wit/host.wit` documents each function. Errors of the contract are thrown as exceptions, whose
 * `payload` has the type that is named here.
 */
declare module "toolyard:plugin/host@0.1.0" {
  export type Json = string;

  export type RpcError = { code: number; message: string; data: Json | null };

  export type AskError =
    | { tag: "unsupported" | "invalid"; val: string }
    | { tag: "refused"; val: RpcError }
    | { tag: "timed-out" | "too-late" | "cancelled" };

  export type Question = { key: string; method: string; params: Json };
  export type Answer = { key: string; outcome: { tag: "ok"; val: Json } | { tag: "err"; val: AskError } };
  export type LogLevel = "debug" | "info" | "notice" | "warning" | "error" | "critical" | "alert" | "emergency";
  export type Change = { tag: "tools" | "prompts" | "resources" } | { tag: "resource"; val: string };

  export function progress(progress: number, total: number | null, message: string | null): void;
  export function status(message: string): void;
  export function log(level: LogLevel, logger: string | null, data: Json): void;
  export function cancelled(): boolean;
  export function sleep(milliseconds: number): void;
  /** Throws `AskError`. */
  export function ask(questions: Question[]): Answer[];
  export function elicitationComplete(key: string): void;
  /** Throws `{ tag: "busy" | "failed"; val: string }`. */
  export function beginTask(): void;
  /** Throws `AskError`. */
  export function effects(): void;
  export function callInfo(): Json;
  export function changed(what: Change): void;
  export function releaseStream(retryMs: number): void;
  /** Ends the run. Throws `{ tag: "busy" | "failed"; val: string }` if it cannot. */
  export function continueWith(state: Json): never;
}
