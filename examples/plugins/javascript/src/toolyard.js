/**
 * What a Toolyard plugin is written with in JavaScript and TypeScript: tools as plain
 * objects, results and errors as values and exceptions, and the host's functions.
 *
 * It is a thin layer over the contract in `wit/` and holds no state. A plugin may use
 * the contract itself beside it: `import * as host from "toolyard:plugin/host@0.1.0"`.
 */
import * as host from "toolyard:plugin/host@0.1.0";

/** JSON-RPC: the arguments fit the schema, but they make no sense. */
export const INVALID_PARAMS = -32602;

/**
 * An error of the request: the client gets it as a JSON-RPC error. For a failure that
 * the model should read and may mend, throw any other error.
 */
export class RpcError extends Error {
  constructor(code, message, data) {
    super(message);
    this.name = "RpcError";
    this.code = code;
    this.data = data;
  }
}

/** There is no answer to a question. `reason` is the case of `ask-error` in `wit/types.wit`. */
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

/** One block of text, for a result that is put together by hand. */
export function textBlock(text) {
  return { tag: "text", val: { text, annotations: null, meta: null } };
}

/**
 * Makes the export of the plugin: `export const tools = plugin({ name: tool, … })`.
 * A tool is `{ title, description, input, output, annotations, task, call(args) }`,
 * where `input` and `output` are JSON Schemas. What `call` returns becomes the result:
 * a string is text; `reply(…)` stands as it is; any other object is structured content,
 * shown as JSON as well for clients that read text only. What it throws becomes an error
 * that the model reads, but for `RpcError`.
 */
export function plugin(tools) {
  return {
    listTools: () => Object.entries(tools).map(([name, tool]) => declaration(name, tool)),
    call(name, args) {
      // The host calls only what `listTools` has named, with arguments that fit.
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
  // Out of memory is for the host to tell, which knows the limit.
  if (isOutOfMemory(error)) throw error;
  return { ...reply(sentence(error)), isError: true };
}

/** What the model reads: the message, with the name of an error that has one of its own. */
function sentence(error) {
  if (!(error instanceof Error)) return JSON.stringify(error) ?? String(error);
  const named = error.name === "Error" || error instanceof NoAnswer ? "" : `${error.name}: `;
  return named + error.message;
}

/** Whether an error says that the engine has no memory left. */
export function isOutOfMemory(error) {
  // QuickJS has no memory left to make the error either, and may throw null.
  return error === null || (error?.name === "InternalError" && error.message === "out of memory");
}

/** Tells the caller how far the work is; `done` must rise. `total` and `message` may be left out. */
export function progress(done, total, message) {
  host.progress(done, total ?? null, message ?? null);
}

/** Sets the sentence that a task shows while it works. */
export function status(message) {
  host.status(message);
}

/** Writes a log message for the client; `level` is a name of RFC 5424, `data` any JSON value. */
export function log(level, data, logger) {
  host.log(level, logger ?? null, JSON.stringify(data));
}

/** Suspends the call; costs the host no thread. */
export function sleep(milliseconds) {
  host.sleep(milliseconds);
}

/** Whether the call is being stopped: a chance to tidy up. The host stops it in any case. */
export function cancelled() {
  return host.cancelled();
}

/** About this call: `taskId`, `attempt`, `deadline`, `tool`, `clientCapabilities`. */
export function callInfo() {
  return JSON.parse(host.callInfo());
}

/**
 * Asks the user by a form, and waits. `key` is the question's name in recorded answers;
 * `properties` are the fields, each a JSON Schema of one plain type. Gives what was filled
 * in, or null if the user declined or closed the form.
 */
export function ask(key, message, properties, required = Object.keys(properties)) {
  const requestedSchema = { type: "object", properties, required };
  const [answer] = askAll([{ key, method: "elicitation/create", params: { message, requestedSchema } }]);
  return answer.action === "accept" ? (answer.content ?? {}) : null;
}

/** Asks several questions at once: elicitation, sampling, roots. Gives the results in the same order. */
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
    // What the contract calls an error comes as the payload of an exception.
    throw typeof error?.payload?.tag === "string" ? new NoAnswer(error.payload) : error;
  }
}
