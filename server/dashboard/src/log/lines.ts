/** One line of output: its text with the escape codes in it, and the codes that were in force where it began. */
export interface Line {
  readonly opening: string;
  readonly text: string;
}

const SGR = /\u001b\[([\d;]*)m/g;
// Everything that moves the cursor, sets a title or asks the terminal something; colours stay.
const NOISE = /\u001b(?:\[[\d;?]*[A-LN-Za-ln-z]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[()][A-Z0-9]|[=>78])/g;

/**
 * The end of a log that may be long: the oldest lines are forgotten when there are too many, or too much of them. A
 * carriage return writes a line anew, as progress bars do.
 */
export class Lines {
  /** The number of the first line that is kept, from 0. */
  first = 0;
  private kept: Line[] = [];
  private start = 0;
  private size = 0;
  private opening = "";
  private tail = "";

  constructor(
    private readonly linesMax = 100_000,
    private readonly charactersMax = 24_000_000,
  ) {}

  get count(): number {
    return this.kept.length - this.start + (this.tail ? 1 : 0);
  }

  /** How many of them have ended and stay as they are. */
  get ended(): number {
    return this.kept.length - this.start;
  }

  /** The line at an index from 0 to count - 1; the last may not have ended yet. */
  at(index: number): Line {
    return this.kept[this.start + index] ?? { opening: this.opening, text: shownOf(this.tail) };
  }

  append(text: string): void {
    const parts = (this.tail + text).split("\n");
    this.tail = parts.pop() ?? "";
    if (this.tail.length > 100_000) {
      parts.push(this.tail);
      this.tail = "";
    }
    for (const part of parts) this.push(part);
    this.forget();
  }

  private push(raw: string): void {
    const text = shownOf(raw);
    this.kept.push({ opening: this.opening, text });
    this.size += text.length;
    if (raw.includes("\u001b")) this.opening = closingOf(this.opening, raw);
  }

  private forget(): void {
    while (this.kept.length - this.start > this.linesMax || this.size > this.charactersMax) {
      this.size -= this.kept[this.start]?.text.length ?? 0;
      this.start += 1;
      this.first += 1;
    }
    // Moving everything down once in a while costs less than a shift for each line.
    if (this.start > 10_000) {
      this.kept = this.kept.slice(this.start);
      this.start = 0;
    }
  }
}

/** What a terminal would show of a line. */
export function shownOf(raw: string): string {
  const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
  const last = line.lastIndexOf("\r");
  const shown = last < 0 ? line : line.slice(last + 1);
  return shown.includes("\u001b") ? shown.replace(NOISE, "") : shown;
}

/** The text alone, for a search. */
export function plainOf(line: Line): string {
  return line.text.includes("\u001b") ? line.text.replace(SGR, "") : line.text;
}

function closingOf(opening: string, raw: string): string {
  let codes = opening;
  for (const [sequence, numbers] of raw.matchAll(SGR)) {
    codes = numbers === "" || numbers === "0" ? "" : /^0;/.test(numbers ?? "") ? sequence : codes + sequence;
  }
  // A log that never resets would carry more and more.
  return codes.length > 200 ? codes.slice(codes.lastIndexOf("\u001b")) : codes;
}
