/** Values as they come from spreadsheets and forms: often as texts. */

/** The number that a value is or spells, or null. */
export function readNumber(value: unknown): number | null {
  if (typeof value === "number") return value;
  if (typeof value !== "string" || !/^\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*$/i.test(value)) return null;
  return Number(value);
}

/** The day that a text names, or null: also for a day that no calendar has. */
export function readDate(value: unknown): Date | null {
  if (typeof value !== "string" || !/^\d{4}-\d{2}-\d{2}$/.test(value)) return null;
  const date = new Date(`${value}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(value) ? date : null;
}

/** Whether there is no value, as an empty cell has none. */
export function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === "";
}
