/**
 * A tool that checks rows of data against rules for their columns, for example before an import. It
 * reports missing, malformed, out-of-range and duplicate values, each with its place.
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
      "Texts are parsed as numbers, dates and so on if a rule requires these. Columns that no rule names are " +
      'refused or ignored, or the tool asks the user about them (`others`).',
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
              required: { type: "boolean", description: "Whether a row must have a value; false by default." },
              unique: { type: "boolean", description: "Whether no two rows may have the same value." },
              min: { type: "number", description: "The least number, or the least length of a text." },
              max: { type: "number", description: "The greatest number, or the greatest length of a text." },
              pattern: { ...string, description: "A regular expression that the whole text has to match." },
              oneOf: { type: "array", items: string, description: "The only allowed texts." },
            },
            required: ["name", "type"],
            additionalProperties: false,
          },
        },
        rows: { type: "array", items: { type: "object" }, description: "Objects; the keys are the columns." },
        others: { enum: ["refuse", "ignore", "ask"], description: "About columns without a rule; refuse by default." },
      },
      required: ["columns", "rows"],
      additionalProperties: false,
    },
    output: {
      type: "object",
      properties: {
        checked: { ...count, description: "The number of checked rows." },
        faulty: { ...count, description: "The number of rows with a problem." },
        problems: {
          type: "array",
          items: {
            type: "object",
            properties: { row: { ...count, description: "From 1." }, column: string, value: {}, problem: string },
            required: ["row", "column", "value", "problem"],
          },
        },
        omitted: { ...count, description: "The number of further problems." },
        characters: { ...count, description: "The number of characters in texts." },
      },
      required: ["checked", "faulty", "problems", "omitted", "characters"],
      additionalProperties: false,
    },
    annotations: { readOnlyHint: true, openWorldHint: false },
    call: check,
  },
});

/** The number of progress reports, whatever the number of rows. */
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
    // Contradictory rules do not depend on the data: the request itself is invalid.
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
