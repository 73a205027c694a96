export const COLOURS = 10;

/**
 * Gives every holder one of the colours, and keeps it. Which one follows from the name, so that it is the same on every
 * page and at every visit, unless somebody shown before has it: then the next that is free.
 */
export class Palette {
  private readonly given = new Map<string, number>();

  colourOf(name: string): number {
    const known = this.given.get(name);
    if (known !== undefined) return known;
    const wished = hashOf(name) % COLOURS;
    const taken = new Set(this.given.values());
    const order = Array.from({ length: COLOURS }, (_, step) => (wished + step) % COLOURS);
    const colour = order.find((candidate) => !taken.has(candidate)) ?? wished;
    this.given.set(name, colour);
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

export const palette = new Palette();

export function colourClass(name: string): string {
  return `holder-${palette.colourOf(name)}`;
}
