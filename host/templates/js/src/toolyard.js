/**
 * A library for Toolyard plugins in JavaScript and TypeScript: tools as plain objects, results and
 * errors as values and exceptions, and the host's functions.
 *
 * It is a thin layer over the contract in `wit/` and has no state. A plugin may also use the
 * contract directly: `import * as host from "toolyard:plugin/host@0.1.0"`.
 */
import * as host from "toolyard:plugin/host@0.1.0";

/** JSON-RPC: the arguments fit the schema, but are invalid. */
export const INVALID_PARAMS = -32602;

/**
 * A request error: the client gets it as a JSON-RPC error. For a tool error, which the model reads
 * and may correct, throw any other error.
 */
export class RpcError extends Error {
  constructor(code, message, data) {
    super(message);
    this.name = "RpcError";
    this.code = code;
    this.data = data;
  }
}

/** A question has no answer. `reason` is the case of `ask-error` in `wit/types.wit`. */
export class NoAnswer extends Error {
  constructor(error) {
    super(SAID[error.tag]?.(error.val) ?? `there is no answer (${error.tag})`);
    this.name = "NoAnswer";
    this.reason = error.tag;
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

/** A result with both a text for the model and structured content for programs. */
export function reply(text, structured) {
  return {
    content: [textBlock(text)],
    structuredContent: structured === undefined ? null : JSON.stringify(structured),
    isError: false,
    meta: null,
  };
}

/** One block of text, for a result that you build yourself. */
export function textBlock(text) {
  return { tag: "text", val: { text, annotations: null, meta: null } };
}

/**
 * Makes the export of the plugin: `export const tools = plugin({ name: tool, … })`. A tool is `{
 * title, description, input, output, annotations, task, call(args) }`, where `input` and `output`
 * are JSON Schemas. The result of the tool is the value that `call` returns: a string is text, and
 * `reply(…)` is used unchanged. Any other object is structured content, also shown as JSON for
 * clients that read text only. If `call` throws, the model reads the error; an `RpcError` goes to
 * the client instead. A call may become a task, unless `task` is "forbidden".
 */
export function plugin(tools) {
  return {
    listTools: () => Object.entries(tools).map(([name, tool]) => declaration(name, tool)),
    call(name, args) {
      // The host calls only tools that `listTools` has named, with arguments that fit.
      try {
        return result(tools[name].call(JSON.parse(args)));
      } catch (error) {
        return failure(error);
      }
    },
  };
}

function declaration(name, tool) {
  return {
    name,
    title: tool.title ?? null,
    description: tool.description ?? null,
    icons: "[]",
    inputSchema: JSON.stringify(tool.input ?? { type: "object" }),
    outputSchema: tool.output ? JSON.stringify(tool.output) : null,
    annotations: JSON.stringify(tool.annotations ?? {}),
    taskSupport: tool.task ?? "optional",
    meta: null,
  };
}

function result(value) {
  if (value === undefined) return { ...reply(""), content: [] };
  if (typeof value === "string") return reply(value);
  if (Array.isArray(value?.content)) return value;
  return reply(JSON.stringify(value, null, 2), value);
}

function failure(error) {
  if (error instanceof RpcError) {
    const data = error.data === undefined ? null : JSON.stringify(error.data);
    throw { tag: "rpc", val: { code: error.code, message: error.message, data } };
  }
  // Out of memory is for the host to report: it knows the limit.
  if (isOutOfMemory(error)) throw error;
  return { ...reply(sentence(error)), isError: true };
}

/** The text of an error for the model: its message, after its name if that is specific. */
function sentence(error) {
  if (!(error instanceof Error)) return JSON.stringify(error) ?? String(error);
  const named = error.name === "Error" || error instanceof NoAnswer ? "" : `${error.name}: `;
  return named + error.message;
}

/** Whether an error means that the engine has no memory left. */
export function isOutOfMemory(error) {
  // QuickJS may lack the memory for the error itself, and throws null.
  return error === null || (error?.name === "InternalError" && error.message === "out of memory");
}

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

/** Information about this call: `taskId`, `attempt`, `deadline`, `tool`, `clientCapabilities`. */
export function callInfo() {
  return JSON.parse(host.callInfo());
}

/**
 * Asks the user with a form, and waits. `key` names the question in recorded answers. `properties`
 * are the fields, each a JSON Schema of one plain type. Returns the filled-in fields, or null if
 * the user declined or closed the form.
 */
export function ask(key, message, properties, required = Object.keys(properties)) {
  const requestedSchema = { type: "object", properties, required };
  const [answer] = askAll([{ key, method: "elicitation/create", params: { message, requestedSchema } }]);
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
