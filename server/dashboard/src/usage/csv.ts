import { save } from "../parts/saving";

type Cell = string | number;

/** A table as CSV. */
export function csv(heads: readonly string[], rows: readonly (readonly Cell[])[]): string {
  return [heads, ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

export function saveCsv(name: string, text: string): void {
  save(name, new Blob([text], { type: "text/csv" }));
}

/** Quoted where needed (RFC 4180); text that a spreadsheet would take for a formula is escaped. */
function cell(value: Cell): string {
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
