export const COLOURS = 10;

/**
 * Gives every holder one of the colours, and keeps it. Which one follows from the name, so that it is the same on every
 * page and at every visit, unless somebody shown before has it: then the next that is free.
 */
export class Palette {
  private readonly given: Map<string, number>;

  /** `given` is what was given before; `onGiven` hears of every change. */
  constructor(
    given: Iterable<readonly [string, number]> = [],
    private readonly onGiven: (given: ReadonlyMap<string, number>) => void = () => undefined,
  ) {
    this.given = new Map(given);
  }

  colourOf(name: string): number {
    const known = this.given.get(name);
    if (known !== undefined) return known;
    const wished = hashOf(name) % COLOURS;
    const taken = new Set(this.given.values());
    const order = Array.from({ length: COLOURS }, (_, step) => (wished + step) % COLOURS);
    const colour = order.find((candidate) => !taken.has(candidate)) ?? wished;
    this.given.set(name, colour);
    this.onGiven(this.given);
    return colour;
  }

  /** Forgets everybody who holds nothing any more, where there are more holders than colours. */
  keep(names: ReadonlySet<string>): void {
    if (this.given.size <= COLOURS) return;
    for (const name of [...this.given.keys()]) if (!names.has(name)) this.given.delete(name);
  }
}

/** FNV-1a. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (const character of text) {
    hash ^= character.codePointAt(0) ?? 0;
    hash = Math.imul(hash, 0x01000193) >>> 0;
  }
  return hash;
}

const KEPT = "aliquot:colours";
const KEPT_MAX = 200;

/** Sessions come and go, and must not take the colours of people, who keep theirs from page to page and visit to visit. */
const people = new Palette(kept(), keep);
const sessions = new Palette();

export function colourOf(holder: string): number {
  return paletteOf(holder).colourOf(holder);
}

export function colourClass(holder: string): string {
  return `holder-${colourOf(holder)}`;
}

/** Forgets sessions that hold nothing any more, where there are more than colours. */
export function keepSessions(holders: ReadonlySet<string>): void {
  sessions.keep(holders);
}

function paletteOf(holder: string): Palette {
  return /^(ses|lea)_/.test(holder) ? sessions : people;
}

/** For the next visit; in vain where this browser keeps nothing, or has no room. */
function keep(given: ReadonlyMap<string, number>): void {
  try {
    globalThis.localStorage?.setItem(KEPT, JSON.stringify([...given].slice(-KEPT_MAX)));
  } catch {
    return;
  }
}

/** What this browser was shown before; nothing where that cannot be read. */
function kept(): [string, number][] {
  try {
    const found: unknown = JSON.parse(globalThis.localStorage?.getItem(KEPT) ?? "[]");
    if (!Array.isArray(found)) return [];
    return found.filter(
      (one): one is [string, number] =>
        Array.isArray(one) && typeof one[0] === "string" && Number.isInteger(one[1]) && one[1] >= 0 && one[1] < COLOURS,
    );
  } catch {
    return [];
  }
}
