/** Rules for columns: as the caller writes them, and compiled to functions that check a value. */
import { readDate, readNumber } from "./values.js";

/** A rule as the caller writes it. */
export interface Rule {
  name: string;
  type: "text" | "integer" | "number" | "boolean" | "date";
  required?: boolean;
  unique?: boolean;
  min?: number;
  max?: number;
  pattern?: string;
  oneOf?: string[];
}

/** Returns the problem with a value, or null. */
export type Check = (value: unknown) => string | null;

/** A compiled rule. `seen` has the row of each value, if values must be unique. */
export interface Compiled {
  name: string;
  required: boolean;
  checks: Check[];
  seen: Map<unknown, number> | null;
}

/** Two rules, or two parts of a rule, contradict each other. */
export class Contradiction extends Error {
  constructor(
    readonly column: string,
    message: string,
  ) {
    super(`the rules for “${column}” contradict each other: ${message}`);
  }
}

export function compileRules(rules: Rule[]): Map<string, Compiled> {
  const compiled = new Map<string, Compiled>();
  for (const rule of rules) {
    if (compiled.has(rule.name)) throw new Contradiction(rule.name, "there are two");
    compiled.set(rule.name, compile(rule));
  }
  return compiled;
}

function compile(rule: Rule): Compiled {
  const { name, type, min = -Infinity, max = Infinity, required = false, unique = false } = rule;
  if (min > max) throw new Contradiction(name, `min is ${min}, max is ${max}`);
  const checks = [TYPES[type]];
  if (rule.min !== undefined || rule.max !== undefined) checks.push(range(type === "text", min, max));
  if (rule.pattern !== undefined) checks.push(matches(name, rule.pattern));
  if (rule.oneOf !== undefined) checks.push(isOneOf(rule.oneOf));
  return { name, required, checks, seen: unique ? new Map() : null };
}

const TYPES: Record<Rule["type"], Check> = {
  text: (value) => (typeof value === "string" ? null : "is not a text"),
  integer: (value) => (Number.isInteger(readNumber(value)) ? null : "is not an integer"),
  number: (value) => (readNumber(value) === null ? "is not a number" : null),
  boolean: (value) => ([true, false, "true", "false"].includes(value as never) ? null : "is neither true nor false"),
  date: (value) => (readDate(value) === null ? "is not a date such as 2026-11-21" : null),
};

function range(isText: boolean, min: number, max: number): Check {
  return (value) => {
    const measured = isText && typeof value === "string" ? [...value].length : readNumber(value);
    if (measured === null || (measured >= min && measured <= max)) return null;
    const [bound, word] = measured < min ? [min, "less"] : [max, "more"];
    return isText ? `has ${measured} characters, ${word} than ${bound}` : `is ${word} than ${bound}`;
  };
}

function matches(name: string, pattern: string): Check {
  let compiled: RegExp;
  try {
    compiled = new RegExp(`^(?:${pattern})$`, "u");
  } catch (error) {
    // The model has most likely written the pattern itself, and can correct it.
    throw new Error(`The pattern for “${name}” is not a regular expression: ${(error as Error).message}`);
  }
  return (value) => (compiled.test(String(value)) ? null : `does not match ${pattern}`);
}

function isOneOf(allowed: string[]): Check {
  const set = new Set(allowed);
  return (value) => (set.has(String(value)) ? null : `is none of ${allowed.join(", ")}`);
}
