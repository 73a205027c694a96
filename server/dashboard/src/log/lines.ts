/** A row of output: a line, or a part of a very long line. */
export interface Line {
  /** The escape codes in force at its start. */
  readonly opening: string;
  /** The text, with its escape codes. */
  readonly text: string;
  /** Number of the line, from 0. */
  readonly number: number;
  /** Whether the line began in an earlier row. */
  readonly isRest: boolean;
}

/** Maximum characters in a row: browsers lay out longer lines too slowly. */
export const FOLD = 2_000;
const SGR = /\u001b\[([\d;]*)m/g;
// An incomplete escape code.
const UNFINISHED = /\u001b(?:\[[\d;?]*|\][^\u0007\u001b]*\u001b?|[()])?$/;
// Codes that move the cursor, set a title or query the terminal; not colours.
const NOISE = /\u001b(?:\[[\d;?]*[A-LN-Za-ln-z]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[()][A-Z0-9]|[=>78])/g;

/**
 * The end of a log of any length: the oldest rows are dropped above a maximum of rows or characters. A carriage return
 * overwrites a line, as progress bars do; very long lines are folded.
 */
export class Lines {
  /** The number of the first row kept, from 0. */
  first = 0;
  private kept: Line[] = [];
  private start = 0;
  private size = 0;
  private opening = "";
  private tail = "";
  private number = 0;
  private isRest = false;

  constructor(
    private readonly rowsMax = 100_000,
    private readonly charactersMax = 24_000_000,
  ) {}

  get count(): number {
    return this.kept.length - this.start + (this.tail ? 1 : 0);
  }

  /** The number of complete rows, which no longer change. */
  get ended(): number {
    return this.kept.length - this.start;
  }

  /** The number of lines dropped. */
  get forgotten(): number {
    return this.count ? this.at(0).number : 0;
  }

  /** The row at an index from 0 to count - 1; the last one may be incomplete. */
  at(index: number): Line {
    return this.kept[this.start + index] ?? this.row(shownOf(this.tail));
  }

  append(text: string): void {
    const parts = (this.tail + text).split("\n");
    const tail = parts.pop() ?? "";
    for (const part of parts) {
      this.push(this.folded(this.rewritten(part)));
      this.number += 1;
      this.isRest = false;
    }
    this.tail = this.folded(this.rewritten(tail));
    this.forget();
  }

  /** A line without its overwritten parts. */
  private rewritten(raw: string): string {
    const from = raw.lastIndexOf("\r", raw.length - 2) + 1;
    if (from === 0) return raw;
    this.opening = closingOf(this.opening, raw.slice(0, from));
    return raw.slice(from);
  }

  /** Adds the full rows of a text, and returns the rest for the last row. */
  private folded(text: string): string {
    let rest = text;
    while (rest.length > FOLD) {
      const end = foldOf(rest);
      this.push(rest.slice(0, end));
      this.isRest = true;
      rest = rest.slice(end);
    }
    return rest;
  }

  private push(raw: string): void {
    const text = shownOf(raw);
    this.kept.push(this.row(text));
    this.size += text.length;
    this.opening = closingOf(this.opening, text);
  }

  private row(text: string): Line {
    return { opening: this.opening, text, number: this.number, isRest: this.isRest };
  }

  private forget(): void {
    while (this.kept.length - this.start > this.rowsMax || this.size > this.charactersMax) {
      this.size -= this.kept[this.start]?.text.length ?? 0;
      this.start += 1;
      this.first += 1;
    }
    // Moving all rows from time to time takes less time than a shift per line.
    if (this.start > 10_000) {
      this.kept = this.kept.slice(this.start);
      this.start = 0;
    }
  }
}

/** The position of a fold: never inside a surrogate pair, or inside an escape code that fits into a row. */
function foldOf(text: string): number {
  const code = text.slice(0, FOLD).search(UNFINISHED);
  if (code > 0) return code;
  return /[\ud800-\udbff]/.test(text[FOLD - 1] ?? "") ? FOLD - 1 : FOLD;
}

/** The text that a terminal would show of a line without overwritten parts. */
export function shownOf(raw: string): string {
  const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
  return line.includes("\u001b") ? line.replace(NOISE, "") : line;
}

/** The text without escape codes, for a search. */
export function plainOf(line: Pick<Line, "opening" | "text">): string {
  return line.text.includes("\u001b") ? line.text.replace(SGR, "") : line.text;
}

function closingOf(opening: string, raw: string): string {
  if (!raw.includes("\u001b")) return opening;
  let codes = opening;
  for (const [sequence, numbers] of raw.matchAll(SGR)) {
    codes = numbers === "" || numbers === "0" ? "" : /^0;/.test(numbers ?? "") ? sequence : joined(codes, sequence);
  }
  // Without this, a log that never resets colours would collect codes without end.
  return codes.length > 200 ? codes.slice(codes.lastIndexOf("\u001b")) : codes;
}

function joined(codes: string, sequence: string): string {
  return codes.endsWith(sequence) ? codes : codes + sequence;
}
