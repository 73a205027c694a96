export const COLOURS = 10;

/**
 * Assigns one of the colours to each holder. It is a hash of the name, so that it is the same on every page and visit;
 * if another holder has that colour, the next free one is used.
 */
export class Palette {
  private readonly given: Map<string, number>;

  /** `given` are earlier assignments; `onGiven` is called after every change. */
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

  /** Drops holders that are not in `names`, once there are more holders than colours. */
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

/** Users keep their colours between visits. Sessions are short-lived and have a palette of their own. */
const people = new Palette(kept(), keep);
const sessions = new Palette();

export function colourOf(holder: string): number {
  return paletteOf(holder).colourOf(holder);
}

export function colourClass(holder: string): string {
  return `holder-${colourOf(holder)}`;
}

/** Drops sessions that hold nothing, once there are more sessions than colours. */
export function keepSessions(holders: ReadonlySet<string>): void {
  sessions.keep(holders);
}

function paletteOf(holder: string): Palette {
  return /^(ses|lea)_/.test(holder) ? sessions : people;
}

/** Stores the colours for the next visit, if the browser allows it. */
function keep(given: ReadonlyMap<string, number>): void {
  try {
    globalThis.localStorage?.setItem(KEPT, JSON.stringify([...given].slice(-KEPT_MAX)));
  } catch {
    return;
  }
}

/** The colours of the last visit; empty if they cannot be read. */
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
