/** Values from spreadsheets and forms, which are often texts. */

/** The number that a value is or represents, or null. */
export function readNumber(value: unknown): number | null {
  if (typeof value === "number") return value;
  if (typeof value !== "string" || !/^\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*$/i.test(value)) return null;
  return Number(value);
}

/** The date that a text represents, or null, also for dates that do not exist. */
export function readDate(value: unknown): Date | null {
  if (typeof value !== "string" || !/^\d{4}-\d{2}-\d{2}$/.test(value)) return null;
  const date = new Date(`${value}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(value) ? date : null;
}

/** Whether the value is missing, like an empty cell. */
export function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === "";
}
