import type { Entry, Page } from "./loading";

export interface Filters {
  /** Parts of a name or id; an owner, project or pool in full. All of them must be found. */
  readonly text: string;
  readonly reason: string;
  readonly priority: string;
}

export const ANY = "any";
/** What the server takes. */
const WORD_MAX = 200;
export const NO_FILTERS: Filters = { text: "", reason: ANY, priority: ANY };

export function matching(entries: readonly Entry[], filters: Filters): Entry[] {
  const words = filters.text.toLowerCase().split(/\s+/).filter(Boolean);
  return entries.filter(({ session }) => {
    const hay = [session.name, session.owner, session.project, session.id, session.pool].join(" ").toLowerCase();
    return (
      words.every((word) => hay.includes(word)) &&
      (filters.reason === ANY || session.waits?.reason === filters.reason) &&
      (filters.priority === ANY || session.priority === filters.priority)
    );
  });
}

/** What the server can be asked for: the longest word, and a priority. The rest is looked for in what it answers. */
export interface Wanted {
  readonly word: string;
  readonly priority: string;
}

export function wantedOf({ text, priority }: Filters): Wanted | null {
  const word = text
    .split(/\s+/)
    .reduce((longest, next) => (next.length > longest.length ? next : longest), "")
    .slice(0, WORD_MAX);
  return word || priority !== ANY ? { word, priority } : null;
}

/**
 * Whether a page has all there is for these filters, so that what is not on it is nowhere.
 *
 * @param asked what it answers: the wanted, as JSON.
 */
export function hasAll({ isFound, isCut }: Page, asked: string, filters: Filters): boolean {
  return Boolean(isFound && !isCut) && asked === JSON.stringify(wantedOf(filters));
}

/** The reasons there are, in the order of the queue. */
export function reasonsOf(entries: readonly Entry[]): string[] {
  return [...new Set(entries.flatMap(({ session }) => session.waits?.reason ?? []))];
}
