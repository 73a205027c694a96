import { plainOf, type Lines } from "./lines";

/** Looks for a text, without regard to case, and at each line that has ended only once. */
export class Search {
  private readonly wanted: string;
  private hits: number[] = [];
  /** The number of the first line that has not been looked at. */
  private next = 0;

  constructor(
    private readonly lines: Lines,
    text: string,
  ) {
    this.wanted = text.toLowerCase();
  }

  /** The numbers, from the log's beginning, of the kept lines that have it. */
  found(): number[] {
    if (!this.wanted) return [];
    const { first, ended, count } = this.lines;
    if ((this.hits[0] ?? first) < first) this.hits = this.hits.filter((hit) => hit >= first);
    for (let number = Math.max(this.next, first); number < first + ended; number += 1) {
      if (this.has(number - first)) this.hits.push(number);
    }
    this.next = first + ended;
    const isInLast = count > ended && this.has(ended);
    return isInLast ? [...this.hits, this.next] : [...this.hits];
  }

  private has(index: number): boolean {
    return plainOf(this.lines.at(index)).toLowerCase().includes(this.wanted);
  }
}

/** The hit after, or before, a line; round the end. */
export function next(hits: readonly number[], from: number, step: 1 | -1): number | null {
  const ordered = step === 1 ? hits : [...hits].reverse();
  return ordered.find((hit) => (step === 1 ? hit > from : hit < from)) ?? ordered[0] ?? null;
}
