/**
 * A library for Toolyard plugins in JavaScript and TypeScript: tools as plain objects, results and
 * errors as values and exceptions, and the host's functions.
 *
 * It is a thin layer over the contract in `wit/`. A plugin may also use the contract directly:
 * `import * as host from "toolyard:plugin/host@0.1.0"`.
 */
import * as host from "toolyard:plugin/host@0.1.0";
import { getEnvironment } from "wasi:cli/environment@0.2.12";
import { settled } from "./engine.js";

// There is no environment while the component is built: it belongs to a call.
let called = false;
globalThis.process ??= {};
Object.defineProperty(globalThis.process, "env", {
  get: () => (called ? Object.fromEntries(getEnvironment()) : {}),
});

/** JSON-RPC: the arguments fit the schema, but are invalid. */
export const INVALID_PARAMS = -32602;

/**
 * A tool error, which the model reads and may correct. So is any other error, but the host also logs
 * the place where that one was thrown.
 */
export class ToolError extends Error {}

/** A request error: the client gets it as a JSON-RPC error. */
export class RpcError extends Error {
  constructor(code, message, data) {
    super(message);
    this.name = "RpcError";
    this.code = code;
    this.data = data;
  }
}

/** A question has no answer. `reason` is the case of `ask-error` in `wit/types.wit`. */
export class NoAnswer extends ToolError {
  constructor(error) {
    super(SAID[error.tag]?.(error.val) ?? `there is no answer (${error.tag})`);
    this.name = "NoAnswer";
    this.reason = error.tag;
  }
}

/** The call does not continue with a state; the run goes on. */
export class CannotContinue extends ToolError {
  constructor(why) {
    super(`cannot continue with the state: ${why}`);
    this.name = "CannotContinue";
  }
}

const SAID = {
  unsupported: (what) => `this client cannot be asked: ${what}`,
  "timed-out": () => "no answer came in time",
  refused: (error) => `the client refused to answer: ${error.message} (${error.code})`,
  invalid: (why) => `the question is not valid: ${why}`,
  "too-late": () => "the call has had effects, so it is too late to ask",
  cancelled: () => "the call is being stopped",
};

// --- Results ---------------------------------------------------------------------------------

/** A result with both a text for the model and structured content for programs. */
export function reply(text, structured) {
  return {
    content: [textBlock(text)],
    structuredContent: structured === undefined ? null : JSON.stringify(structured),
    isError: false,
    meta: null,
  };
}

/** A block of text. */
export function textBlock(text) {
  return { tag: "text", val: { text, annotations: null, meta: null } };
}

/** A block with an image; `data` is a `Uint8Array`. */
export function image(data, mimeType = "image/png") {
  return { tag: "image", val: { data, mimeType, annotations: null, meta: null } };
}

/** A block with a piece of audio; `data` is a `Uint8Array`. */
export function audio(data, mimeType = "audio/wav") {
  return { tag: "audio", val: { data, mimeType, annotations: null, meta: null } };
}

/** A block with a file in it: text, or bytes as a `Uint8Array`. */
export function file(uri, data, mimeType) {
  const body = typeof data === "string" ? { text: data } : { blob: base64(data) };
  return { tag: "embedded-resource", val: JSON.stringify({ resource: { uri, mimeType, ...body } }) };
}

/** A block with a link to a resource. `more` are other members of an MCP `ResourceLink`. */
export function link(uri, name, more = {}) {
  return { tag: "resource-link", val: JSON.stringify({ uri, name, ...more }) };
}

/** Bytes in base64. */
export function base64(bytes) {
  let characters = "";
  // In pieces, because each byte is an argument of a call.
  for (let at = 0; at < bytes.length; at += 4096) characters += String.fromCharCode(...bytes.subarray(at, at + 4096));
  return btoa(characters);
}

// --- Tools -----------------------------------------------------------------------------------

/** A tool, unchanged. It lets TypeScript infer the arguments of `call` from `input`. */
export function tool(definition) {
  return definition;
}

/**
 * Makes the export of the plugin: `export const tools = plugin({ name: tool, … })`. A tool is `{
 * title, description, input, output, annotations, task, call(args) }`, where `input` and `output`
 * are JSON Schemas, or schemas of a library that can give one (Standard JSON Schema: Zod and
 * others). `call` may be `async`. Its value is the result: a string is text, blocks (`image(…)`) and
 * lists of blocks are content, and `reply(…)` is used unchanged. Any other object is structured
 * content, also shown as JSON for clients that read text only. If `call` throws, the model reads the
 * error; an `RpcError` goes to the client instead. A call may become a task, unless `task` is
 * "forbidden".
 */
export function plugin(tools) {
  return {
    listTools() {
      try {
        return Object.entries(tools).map(([name, tool]) => declaration(name, tool));
      } catch (error) {
        // The contract has no error here. The host shows what was logged last.
        log("error", sentence(error), "javascript");
        throw error;
      }
    },
    call(name, args) {
      called = true;
      // The host calls only tools that `listTools` has named, with arguments that fit.
      return settled(run(tools[name], JSON.parse(args)));
    },
  };
}

async function run(tool, args) {
  try {
    return result(await tool.call(await read(tool.input, args)));
  } catch (error) {
    return failure(error);
  }
}

function declaration(name, tool) {
  return {
    name,
    title: tool.title ?? null,
    description: tool.description ?? null,
    icons: "[]",
    inputSchema: JSON.stringify(jsonSchema(tool.input ?? { type: "object" }, "input")),
    outputSchema: tool.output ? JSON.stringify(jsonSchema(tool.output, "output")) : null,
    annotations: JSON.stringify(tool.annotations ?? {}),
    taskSupport: tool.task ?? "optional",
    meta: null,
  };
}

/** The JSON Schema of a schema; `side` is "input" or "output". */
function jsonSchema(schema, side) {
  return schema["~standard"]?.jsonSchema[side]({ target: "draft-2020-12" }) ?? schema;
}

/** Reads a value by the schema of a library, which may set defaults. */
async function read(schema, value) {
  const read = await schema?.["~standard"]?.validate(value);
  if (!read?.issues) return read ? read.value : value;
  const issues = read.issues.map(({ path = [], message }) => [path.join("."), message].filter(Boolean).join(": "));
  throw new ToolError(issues.join("; "));
}

function result(value) {
  if (value === undefined) return { ...reply(""), content: [] };
  if (typeof value === "string") return reply(value);
  if (Array.isArray(value?.content)) return value;
  const blocks = Array.isArray(value) ? value : [value];
  if (blocks.every((block) => block?.tag && "val" in block)) return { ...reply(""), content: blocks };
  return reply(JSON.stringify(value, null, 2), value);
}

function failure(error) {
  if (error instanceof RpcError) {
    const data = error.data === undefined ? null : JSON.stringify(error.data);
    throw { tag: "rpc", val: { code: error.code, message: error.message, data } };
  }
  // Out of memory is for the host to report: it knows the limit.
  if (isOutOfMemory(error)) throw error;
  const text = sentence(error);
  if (error instanceof Error && !(error instanceof ToolError)) {
    log("error", { error: text, at: places(error.stack ?? "") }, "javascript");
  }
  return { ...reply(text), isError: true };
}

/** The text of an error for the model: its message, after its name if that is specific. */
function sentence(error) {
  if (!(error instanceof Error)) return JSON.stringify(error) ?? String(error);
  const isPlain = ["Error", error.message].includes(error.name) || error instanceof ToolError;
  const named = isPlain ? "" : `${error.name}: `;
  return named + error.message;
}

/** The lines of the author that an error passed, the last first. The build notes them: see `lines.mjs`. */
function places(stack) {
  const { files, lines } = globalThis.toolyardLines ?? { files: [], lines: [] };
  const found = [];
  for (const frame of stack.split("\n")) {
    const [, line] = frame.match(/\.js:(\d+)(?::\d+)?\)?$/) ?? [];
    const [file, at] = lines[line] || [];
    if (file !== undefined) found.push(`${files[file]}:${at}`);
  }
  return found;
}

/** Whether an error means that the engine has no memory left. */
export function isOutOfMemory(error) {
  // QuickJS may lack the memory for the error itself, and throws null.
  return error === null || (error?.name === "InternalError" && error.message === "out of memory");
}

// --- Host functions ----------------------------------------------------------------------------

/** Reports progress to the caller; `done` must increase. `total` and `message` are optional. */
export function progress(done, total, message) {
  host.progress(done, total ?? null, message ?? null);
}

/** Sets the status message of the task. */
export function status(message) {
  host.status(message);
}

/** Logs a message for the client; `level` is a name from RFC 5424, `data` any JSON value. */
export function log(level, data, logger) {
  host.log(level, logger ?? null, JSON.stringify(data));
}

/** Suspends the call; this uses no thread of the host. */
export function sleep(milliseconds) {
  host.sleep(milliseconds);
}

/** Whether the call is being cancelled, so that it can clean up. The host stops it in any case. */
export function cancelled() {
  return host.cancelled();
}

/** Declares that the call has effects from here on, so that the host does not run it again by itself. */
export function effects() {
  asked(() => host.effects());
}

/** Information about this call: `taskId`, `attempt`, `deadline`, `tool`, `clientCapabilities`, `state`. */
export function callInfo() {
  return JSON.parse(host.callInfo());
}

/**
 * Ends this run of a task that resumes (`durability = "resume"` in the manifest). The call begins
 * again in a fresh instance, with the same arguments, and `restored` returns the state: any JSON
 * value, at most 256 KiB. The host drops the journal of the task so far. Throws `CannotContinue` if
 * that fails; then the run can go on by itself. Do not call it while a request is under way.
 */
export function continueWith(state) {
  try {
    host.continueWith(JSON.stringify(state ?? null));
  } catch (error) {
    throw typeof error?.payload?.tag === "string" ? new CannotContinue(error.payload.val) : error;
  }
}

/**
 * The state that an earlier run of the task gave to `continueWith`; undefined in the first run, and
 * in a plain call.
 */
export function restored() {
  return callInfo().state;
}

/**
 * Asks the user with a form, and waits. `key` names the question in recorded answers. `form` is a
 * schema of an object, or its fields: each a JSON Schema of one plain type. Returns the filled-in
 * fields, or null if the user declined or closed the form.
 */
export function ask(key, message, form, required) {
  const isSchema = form["~standard"] || (form.type === "object" && form.properties);
  const { properties, ...rest } = isSchema ? jsonSchema(form, "input") : { properties: form };
  const fields = { type: "object", properties, required: required ?? rest.required ?? Object.keys(properties) };
  const [answer] = askAll([{ key, method: "elicitation/create", params: { message, requestedSchema: fields } }]);
  return answer.action === "accept" ? (answer.content ?? {}) : null;
}

/** Asks several questions at once: elicitation, sampling, roots. Returns the results in the same order. */
export function askAll(questions) {
  const answers = asked(() => host.ask(questions.map((q) => ({ ...q, params: JSON.stringify(q.params) }))));
  return questions.map(({ key }) => {
    const { outcome } = answers.find((answer) => answer.key === key);
    if (outcome.tag === "err") throw new NoAnswer(outcome.val);
    return JSON.parse(outcome.val);
  });
}

function asked(question) {
  try {
    return question();
  } catch (error) {
    // Errors of the contract are the payload of an exception.
    throw typeof error?.payload?.tag === "string" ? new NoAnswer(error.payload) : error;
  }
}
