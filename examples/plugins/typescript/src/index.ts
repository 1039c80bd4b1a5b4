/**
 * A tool that checks rows of data against rules for their columns, as one does before an
 * import: what is missing, malformed, out of range or there twice, each with its place.
 */
import { checkAll, type Report } from "./check.js";
import { compileRules, Contradiction, type Rule } from "./rules.js";
import { INVALID_PARAMS, ask, plugin, progress, reply, RpcError, type Result } from "./toolyard.js";

/** The arguments, as the schema `input` below describes them. */
interface Arguments {
  columns: Rule[];
  rows: Record<string, unknown>[];
  others?: "refuse" | "ignore" | "ask";
}

const string = { type: "string" } as const;
const count = { type: "integer", minimum: 0 } as const;

export const tools = plugin({
  check_rows: {
    title: "Check rows",
    description:
      "Checks rows of data against rules for their columns and lists what is wrong, with row, column and value. " +
      "Texts are read as numbers, dates and so on where a rule wants these. Columns that no rule names are " +
      'refused, ignored, or the user is asked about them (`others`).',
    input: {
      type: "object",
      properties: {
        columns: {
          type: "array",
          minItems: 1,
          items: {
            type: "object",
            properties: {
              name: { ...string, minLength: 1 },
              type: { enum: ["text", "integer", "number", "boolean", "date"], description: "Dates are YYYY-MM-DD." },
              required: { type: "boolean", description: "Whether a row must have a value; false if left out." },
              unique: { type: "boolean", description: "Whether no two rows may have the same value." },
              min: { type: "number", description: "The least number, or the least length of a text." },
              max: { type: "number", description: "The greatest number, or the greatest length of a text." },
              pattern: { ...string, description: "A regular expression that the whole text has to match." },
              oneOf: { type: "array", items: string, description: "The only texts that there may be." },
            },
            required: ["name", "type"],
            additionalProperties: false,
          },
        },
        rows: { type: "array", items: { type: "object" }, description: "Objects; the keys are the columns." },
        others: { enum: ["refuse", "ignore", "ask"], description: "About columns without a rule; refuse if left out." },
      },
      required: ["columns", "rows"],
      additionalProperties: false,
    },
    output: {
      type: "object",
      properties: {
        checked: { ...count, description: "How many rows were checked." },
        faulty: { ...count, description: "In how many of them something is wrong." },
        problems: {
          type: "array",
          items: {
            type: "object",
            properties: { row: { ...count, description: "From 1." }, column: string, value: {}, problem: string },
            required: ["row", "column", "value", "problem"],
          },
        },
        omitted: { ...count, description: "How many more problems there are." },
        characters: { ...count, description: "How many characters of text were read." },
      },
      required: ["checked", "faulty", "problems", "omitted", "characters"],
      additionalProperties: false,
    },
    annotations: { readOnlyHint: true, openWorldHint: false },
    call: check,
  },
});

/** Progress is told so often, whatever the number of rows. */
const STEPS = 20;

function check({ columns, rows, others = "refuse" }: Arguments): Result {
  const rules = compile(columns);
  const unknown = new Set(rows.flatMap(Object.keys).filter((name) => !rules.has(name)));
  const ignored = unknown.size > 0 && mayIgnore([...unknown], others);
  const every = Math.max(1, Math.ceil(rows.length / STEPS));
  const report = checkAll(rules, rows, ignored, (done) => {
    if (done % every === 0 || done === rows.length) progress(done, rows.length, `${done} rows`);
  });
  return reply(summary(report), report);
}

function compile(columns: Rule[]): ReturnType<typeof compileRules> {
  try {
    return compileRules(columns);
  } catch (error) {
    // Rules that contradict each other are no question of the data: the request makes no sense.
    if (error instanceof Contradiction) throw new RpcError(INVALID_PARAMS, error.message, { column: error.column });
    throw error;
  }
}

function mayIgnore(names: string[], others: "refuse" | "ignore" | "ask"): boolean {
  if (others !== "ask") return others === "ignore";
  const list = names.map((name) => `“${name}”`).join(", ");
  const answer = ask<{ decision: string }>("others", `No rule names ${list}. What about such columns?`, {
    decision: { type: "string", title: "Decision", enum: ["ignore", "refuse"] },
  });
  if (answer === null) throw new Error(`It was not decided what to do about ${list}; set \`others\`.`);
  return answer.decision === "ignore";
}

function summary({ checked, faulty, problems, omitted }: Report): string {
  if (faulty === 0) return `All ${checked} rows are fine.`;
  const lines = problems.map(({ row, column, problem }) => `row ${row}, ${column}: ${problem}`);
  const rest = omitted > 0 ? [`… and ${omitted} more problems`] : [];
  return [`${faulty} of ${checked} rows have problems:`, ...lines, ...rest].join("\n");
}
