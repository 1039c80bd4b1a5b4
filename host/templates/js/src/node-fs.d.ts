/** The part of `node:fs/promises` that `node-fs.js` has. */
declare module "node:fs/promises" {
  interface Stats {
    size: number;
    isFile(): boolean;
    isDirectory(): boolean;
    isSymbolicLink(): boolean;
  }
  type Entry = Omit<Stats, "size"> & { name: string };
  type Encoding = "utf8" | "utf-8";

  export function readFile(path: string): Promise<Uint8Array>;
  export function readFile(path: string, options: Encoding | { encoding: Encoding }): Promise<string>;
  export function writeFile(path: string, data: string | Uint8Array): Promise<void>;
  export function appendFile(path: string, data: string | Uint8Array): Promise<void>;
  export function readdir(path: string): Promise<string[]>;
  export function readdir(path: string, options: { withFileTypes: true }): Promise<Entry[]>;
  export function stat(path: string): Promise<Stats>;
  export function mkdir(path: string, options?: { recursive?: boolean }): Promise<void>;
  export function rename(from: string, to: string): Promise<void>;
  export function unlink(path: string): Promise<void>;
  export function rm(path: string, options?: { recursive?: boolean; force?: boolean }): Promise<void>;
}
