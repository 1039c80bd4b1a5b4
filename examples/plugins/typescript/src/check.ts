/** Checks rows against rules. */
import type { Compiled } from "./rules.js";
import { isEmpty } from "./values.js";

export interface Problem {
  row: number;
  column: string;
  value: unknown;
  problem: string;
}

export interface Report {
  checked: number;
  faulty: number;
  problems: Problem[];
  omitted: number;
  characters: number;
}

/** Further problems are counted but not listed. */
const MOST_PROBLEMS = 100;

/** Checks all rows, and reports the number of rows done after each. */
export function checkAll(
  rules: Map<string, Compiled>,
  rows: Record<string, unknown>[],
  ignoreOthers: boolean,
  done: (rows: number) => void,
): Report {
  const report: Report = { checked: rows.length, faulty: 0, problems: [], omitted: 0, characters: 0 };
  for (const [index, row] of rows.entries()) {
    let isFaulty = false;
    for (const problem of problemsOf(rules, row, index + 1, ignoreOthers)) {
      isFaulty = true;
      if (report.problems.length < MOST_PROBLEMS) report.problems.push(problem);
      else report.omitted += 1;
    }
    if (isFaulty) report.faulty += 1;
    for (const value of Object.values(row)) if (typeof value === "string") report.characters += [...value].length;
    done(index + 1);
  }
  return report;
}

function* problemsOf(
  rules: Map<string, Compiled>,
  row: Record<string, unknown>,
  number: number,
  ignoreOthers: boolean,
): Generator<Problem> {
  for (const rule of rules.values()) {
    const value = Object.hasOwn(row, rule.name) ? row[rule.name] : undefined;
    const problem = fault(rule, value, number);
    if (problem !== null) yield { row: number, column: rule.name, value: value ?? null, problem };
  }
  if (ignoreOthers) return;
  for (const [column, value] of Object.entries(row)) {
    if (!rules.has(column)) yield { row: number, column, value, problem: "is a column without a rule" };
  }
}

function fault(rule: Compiled, value: unknown, number: number): string | null {
  if (isEmpty(value)) return rule.required ? "is missing" : null;
  for (const check of rule.checks) {
    const problem = check(value);
    if (problem !== null) return problem;
  }
  const first = rule.seen?.get(value);
  if (first !== undefined) return `is the same as in row ${first}`;
  rule.seen?.set(value, number);
  return null;
}
