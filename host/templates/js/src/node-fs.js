/**
 * The part of Node's `node:fs/promises` that reads and writes whole files, in the folders that the
 * manifest grants. The build puts it in the place of that module. Errors have Node's codes.
 */
import { getDirectories } from "wasi:filesystem/preopens@0.2.12";
import { u64 } from "./engine.js";

const PIECE_BYTES = 64 << 10;

/** Node's codes and messages by the names of `error-code` in `wit/deps/filesystem.wit`. */
const ERRORS = {
  access: ["EACCES", "permission denied"],
  exist: ["EEXIST", "file already exists"],
  "insufficient-space": ["ENOSPC", "no space left on device"],
  "is-directory": ["EISDIR", "illegal operation on a directory"],
  "name-too-long": ["ENAMETOOLONG", "name too long"],
  "no-entry": ["ENOENT", "no such file or directory"],
  "not-directory": ["ENOTDIR", "not a directory"],
  "not-empty": ["ENOTEMPTY", "directory not empty"],
  "not-permitted": ["EPERM", "operation not permitted"],
  "read-only": ["EROFS", "read-only file system"],
  quota: ["EDQUOT", "disk quota exceeded"],
};

function failed(action, path, error) {
  const name = error?.payload ?? error;
  if (typeof name !== "string") return error;
  const [code, message] = ERRORS[name] ?? ["EIO", name];
  return Object.assign(new Error(`${code}: ${message}, ${action} '${path}'`), { code, path, syscall: action });
}

/** The granted folder that contains a path, and the path in it. */
function located(action, path) {
  const parts = [];
  for (const part of String(path).split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  const whole = `/${parts.join("/")}`;
  let best;
  for (const [folder, at] of getDirectories()) {
    const inside = at === "/" || whole === at || whole.startsWith(`${at}/`);
    if (inside && !(best?.at.length > at.length)) best = { folder, at };
  }
  if (!best) throw failed(action, path, "no-entry");
  const rest = whole.slice(best.at === "/" ? 1 : best.at.length + 1);
  return { folder: best.folder, rest: rest === "" ? "." : rest };
}

function on(action, path, act) {
  const { folder, rest } = located(action, path);
  try {
    return act(folder, rest);
  } catch (error) {
    throw failed(action, path, error);
  }
}

function opened(action, path, openFlags, flags, act) {
  return on(action, path, (folder, rest) => {
    const descriptor = folder.openAt({ symlinkFollow: true }, rest, openFlags, flags);
    try {
      return act(descriptor);
    } finally {
      descriptor[Symbol.dispose]?.();
    }
  });
}

/** The bytes of a file, or its text with the encoding "utf8". */
export async function readFile(path, options) {
  const encoding = typeof options === "string" ? options : options?.encoding;
  const pieces = [];
  opened("open", path, {}, { read: true }, (descriptor) => {
    let size = 0;
    for (let isEnd = false; !isEnd; ) {
      const [piece, end] = descriptor.read(u64(PIECE_BYTES), u64(size));
      pieces.push(Uint8Array.from(piece));
      size += piece.length;
      isEnd = end || piece.length === 0;
    }
  });
  const bytes = new Uint8Array(pieces.reduce((size, piece) => size + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return encoding ? new TextDecoder(encoding).decode(bytes) : bytes;
}

function write(path, data, openFlags, from) {
  const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
  opened("open", path, openFlags, { write: true }, (descriptor) => {
    let at = from(descriptor);
    for (let done = 0; done < bytes.length; ) {
      const piece = bytes.subarray(done, done + PIECE_BYTES);
      const written = Number(descriptor.write(piece, u64(at)));
      done += written;
      at += written;
    }
  });
}

/** Writes a file, which replaces one that is there. */
export async function writeFile(path, data) {
  write(path, data, { create: true, truncate: true }, () => 0);
}

/** Writes to the end of a file. */
export async function appendFile(path, data) {
  write(path, data, { create: true }, (descriptor) => Number(descriptor.stat().size));
}

/** The names in a folder, sorted; entries with `isFile()` and `isDirectory()` if `withFileTypes`. */
export async function readdir(path, options) {
  const entries = opened("scandir", path, { directory: true }, { read: true }, (descriptor) => {
    const stream = descriptor.readDirectory();
    const entries = [];
    try {
      for (let entry = stream.readDirectoryEntry(); entry; entry = stream.readDirectoryEntry()) entries.push(entry);
    } finally {
      stream[Symbol.dispose]?.();
    }
    return entries;
  });
  entries.sort((one, two) => (one.name < two.name ? -1 : 1));
  return entries.map((entry) => (options?.withFileTypes ? { name: entry.name, ...kind(entry.type) } : entry.name));
}

function kind(type) {
  return {
    isFile: () => type === "regular-file",
    isDirectory: () => type === "directory",
    isSymbolicLink: () => type === "symbolic-link",
  };
}

/** What a path leads to: `size` in bytes, `isFile()`, `isDirectory()`. */
export async function stat(path) {
  const found = on("stat", path, (folder, rest) => folder.statAt({ symlinkFollow: true }, rest));
  return { size: Number(found.size), ...kind(found.type) };
}

/** Makes a folder; with `recursive` also those above it, and one that is there is no error. */
export async function mkdir(path, options) {
  on("mkdir", path, (folder, rest) => {
    const parts = rest.split("/");
    for (let count = options?.recursive ? 1 : parts.length; count <= parts.length; count += 1) {
      try {
        folder.createDirectoryAt(parts.slice(0, count).join("/"));
      } catch (error) {
        if (!options?.recursive || (error?.payload ?? error) !== "exist") throw error;
      }
    }
  });
}

/** Renames a file or a folder. */
export async function rename(from, to) {
  const target = located("rename", to);
  on("rename", from, (folder, rest) => folder.renameAt(rest, target.folder, target.rest));
}

/** Removes a file. */
export async function unlink(path) {
  on("unlink", path, (folder, rest) => folder.unlinkFileAt(rest));
}

/** Removes a file; with `recursive` also a folder with all in it. With `force` nothing has to be there. */
export async function rm(path, options) {
  try {
    if (!(await stat(path)).isDirectory()) return await unlink(path);
    if (!options?.recursive) throw failed("rm", path, "is-directory");
    for (const name of await readdir(path)) await rm(`${path}/${name}`, options);
    on("rmdir", path, (folder, rest) => folder.removeDirectoryAt(rest));
  } catch (error) {
    if (!(options?.force && error.code === "ENOENT")) throw error;
  }
}
