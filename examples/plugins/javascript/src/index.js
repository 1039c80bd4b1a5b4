/**
 * A tool that runs its caller's JavaScript over JSON. This is safe here: each call has a fresh
 * engine in a sandbox without grants, with limits on memory and time, and the host stops a program
 * that never ends.
 */
import { ask, INVALID_PARAMS, isOutOfMemory, log, plugin, progress, reply, RpcError } from "./toolyard.js";

/** The most printed lines that the result shows; it counts the rest. */
const MOST_LINES = 200;

export const tools = plugin({
  run_javascript: {
    title: "Run JavaScript",
    description:
      "Runs a JavaScript program over JSON and gives what it returns. The program is an expression, or the " +
      "body of a function with `return`; it sees `input`, and may call `console.log(…)`, " +
      "`progress(done, total, message)` and `ask(question)`, which asks the user and gives the answer as " +
      "a text or null. It is ES2023 without modules, timers, network and files. Nothing is kept between calls.",
    input: {
      type: "object",
      properties: {
        program: { type: "string", description: "The program, such as `input.filter(x => x.age > 30).length`." },
        input: { description: "Any JSON value; the program sees it as `input`." },
      },
      required: ["program"],
      additionalProperties: false,
    },
    output: {
      type: "object",
      properties: {
        result: { description: "The return value of the program as JSON, or null." },
        printed: { type: "array", items: { type: "string" }, description: "The lines that it printed." },
        omitted: { type: "integer", minimum: 0, description: "The number of further printed lines." },
      },
      required: ["result", "printed", "omitted"],
      additionalProperties: false,
    },
    annotations: { readOnlyHint: true, openWorldHint: false },
    call: run,
  },
});

function run({ program, input = null }) {
  if (program.trim() === "") {
    throw new RpcError(INVALID_PARAMS, "the program is blank", { argument: "program" });
  }
  const lines = printer();
  const result = execute(compile(program), input, lines);
  // A value that is not JSON (a function, a cycle) fails here, as an error of the program.
  const json = JSON.stringify(result ?? null) ?? "null";
  const structured = { result: JSON.parse(json), printed: lines.printed, omitted: lines.omitted };
  return reply([...lines.printed, json].join("\n"), structured);
}

/** The names that a program can use. A strict function cannot reach the plugin's own scope. */
const SEEN = ["input", "console", "progress", "ask"];

/** The lines before the program in a `Function`: its parameters, and the brace. */
const LINES_BEFORE = 2;

function compile(program) {
  try {
    return new Function(...SEEN, `"use strict"; return (${program}\n);`);
  } catch {
    // Not an expression, so it must be statements; errors in those are worth reporting.
    return new Function(...SEEN, `"use strict"; ${program}`);
  }
}

function execute(compiled, input, lines) {
  try {
    return compiled(input, { log: lines.print }, progress, question());
  } catch (error) {
    if (isOutOfMemory(error) || !(error instanceof Error)) throw error;
    const where = /<input>:(\d+)/.exec(error.stack ?? "");
    throw where ? new ProgramError(error, Number(where[1]) - LINES_BEFORE) : error;
  }
}

/** An error of the caller's program, with its line. */
class ProgramError extends Error {
  constructor(cause, line) {
    super(`${cause.message} (line ${line} of the program)`, { cause });
    this.name = cause.name;
  }
}

function printer() {
  const lines = { printed: [], omitted: 0 };
  lines.print = (...values) => {
    const line = values.map((value) => (typeof value === "string" ? value : JSON.stringify(value))).join(" ");
    if (lines.printed.length === MOST_LINES) {
      lines.omitted += 1;
      return;
    }
    lines.printed.push(line);
    log("debug", line, "program");
  };
  return lines;
}

/** `ask` for programs. A call may run again with the answers that it already has, so keys count from 1. */
function question() {
  let asked = 0;
  return (message) => {
    asked += 1;
    const answer = ask(`answer-${asked}`, String(message), { answer: { type: "string", title: "Answer" } });
    return answer?.answer ?? null;
  };
}
