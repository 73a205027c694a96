import { plainOf, type Line, type Lines } from "./lines";

/** A case-insensitive search that examines each complete row only once. */
export class Search {
  private readonly wanted: string;
  private hits: number[] = [];
  /** The end of the last row examined, for hits that continue in the next row of the same line. */
  private end = "";
  /** The number of the first row not yet examined. */
  private next = 0;
  /** Whether all complete rows have been examined. */
  isDone = true;

  constructor(
    private readonly lines: Lines,
    text: string,
  ) {
    this.wanted = text.toLowerCase();
  }

  /**
   * The numbers, from the log's beginning, of the kept rows with the text or its end. Examines about `charactersMax`
   * characters; the next call continues.
   */
  found(charactersMax = Infinity): number[] {
    if (!this.wanted) return [];
    const { first, ended, count } = this.lines;
    if ((this.hits[0] ?? first) < first) this.hits = this.hits.filter((hit) => hit >= first);
    if (this.next < first) this.end = "";
    let left = charactersMax;
    let number = Math.max(this.next, first);
    for (; number < first + ended && left > 0; number += 1) {
      const row = this.lines.at(number - first);
      left -= row.text.length;
      const text = this.textOf(row);
      if (text.includes(this.wanted)) this.hits.push(number);
      this.end = text.slice(Math.max(0, text.length - this.wanted.length + 1));
    }
    this.next = number;
    this.isDone = number >= first + ended;
    const isInLast = this.isDone && count > ended && this.textOf(this.lines.at(ended)).includes(this.wanted);
    return isInLast ? [...this.hits, number] : [...this.hits];
  }

  private textOf(row: Line): string {
    return (row.isRest ? this.end : "") + plainOf(row).toLowerCase();
  }
}

/** For each of these rows, the number of lines with a hit up to it; a long line has several rows. */
export function linesOf(hits: readonly number[], lines: Lines): number[] {
  let last = -1;
  let count = 0;
  return hits.map((hit) => {
    const { number } = lines.at(hit - lines.first);
    if (number !== last) count += 1;
    last = number;
    return count;
  });
}

/** The hit after or before a row; wraps around. */
export function next(hits: readonly number[], from: number, step: 1 | -1): number | null {
  const ordered = step === 1 ? hits : [...hits].reverse();
  return ordered.find((hit) => (step === 1 ? hit > from : hit < from)) ?? ordered[0] ?? null;
}
