import { plainOf, type Line, type Lines } from "./lines";

/** Looks for a text, without regard to case, and at each row that has ended only once. */
export class Search {
  private readonly wanted: string;
  private hits: number[] = [];
  /** The number of the first row that has not been looked at. */
  private next = 0;
  /** Whether all that has ended was looked at. */
  isDone = true;

  constructor(
    private readonly lines: Lines,
    text: string,
  ) {
    this.wanted = text.toLowerCase();
  }

  /**
   * The numbers, from the log's beginning, of the kept rows that have it. About so many characters are looked through at
   * a time; the next call goes on from there.
   */
  found(charactersMax = Infinity): number[] {
    if (!this.wanted) return [];
    const { first, ended, count } = this.lines;
    if ((this.hits[0] ?? first) < first) this.hits = this.hits.filter((hit) => hit >= first);
    let left = charactersMax;
    let number = Math.max(this.next, first);
    for (; number < first + ended && left > 0; number += 1) {
      const row = this.lines.at(number - first);
      left -= row.text.length;
      if (this.isIn(row)) this.hits.push(number);
    }
    this.next = number;
    this.isDone = number >= first + ended;
    const isInLast = this.isDone && count > ended && this.isIn(this.lines.at(ended));
    return isInLast ? [...this.hits, number] : [...this.hits];
  }

  private isIn(row: Line): boolean {
    return plainOf(row).toLowerCase().includes(this.wanted);
  }
}

/** The hit after, or before, a row; round the end. */
export function next(hits: readonly number[], from: number, step: 1 | -1): number | null {
  const ordered = step === 1 ? hits : [...hits].reverse();
  return ordered.find((hit) => (step === 1 ? hit > from : hit < from)) ?? ordered[0] ?? null;
}
