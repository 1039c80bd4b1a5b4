// The tools that the section "Languages beside their SDKs" calls: `echo`, and `check_rows` of
// examples/plugins/typescript, whose sources install.sh translates to JavaScript.
import { z } from "zod";
import { checkAll } from "../../../../target/peers/check-rows/check.mjs";
import { compileRules } from "../../../../target/peers/check-rows/rules.mjs";

const rule = z.strictObject({
  name: z.string().min(1),
  type: z.enum(["text", "integer", "number", "boolean", "date"]),
  required: z.boolean().optional(),
  unique: z.boolean().optional(),
  min: z.number().optional(),
  max: z.number().optional(),
  pattern: z.string().optional(),
  oneOf: z.array(z.string()).optional(),
});
const rules = { columns: z.array(rule).min(1), rows: z.array(z.record(z.string(), z.unknown())) };
const count = z.number().int().min(0);
const problem = z.object({ row: count, column: z.string(), value: z.unknown(), problem: z.string() });
const report = { checked: count, faulty: count, problems: z.array(problem), omitted: count, characters: count };

export function register(server) {
  server.registerTool("echo", { description: "Returns its text.", inputSchema: { text: z.string() } }, ({ text }) => ({
    content: [{ type: "text", text }],
  }));
  const description = "Checks rows of data against rules for their columns.";
  server.registerTool("check_rows", { description, inputSchema: rules, outputSchema: report }, ({ columns, rows }) => {
    const checked = checkAll(compileRules(columns), rows, false, () => {});
    const text = checked.faulty === 0 ? `All ${checked.checked} rows are fine.` : "Rows have problems.";
    return { content: [{ type: "text", text }], structuredContent: checked };
  });
}
