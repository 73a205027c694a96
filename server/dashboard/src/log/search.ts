import { plainOf, type Lines } from "./lines";

/** The numbers, from the log's beginning, of the kept lines that have the text in them; without regard to case. */
export function found(lines: Lines, text: string): number[] {
  const wanted = text.toLowerCase();
  if (!wanted) return [];
  const hits: number[] = [];
  for (let index = 0; index < lines.count; index += 1) {
    if (plainOf(lines.at(index)).toLowerCase().includes(wanted)) hits.push(lines.first + index);
  }
  return hits;
}

/** The hit after, or before, a line; round the end. */
export function next(hits: readonly number[], from: number, step: 1 | -1): number | null {
  const ordered = step === 1 ? hits : [...hits].reverse();
  return ordered.find((hit) => (step === 1 ? hit > from : hit < from)) ?? ordered[0] ?? null;
}
