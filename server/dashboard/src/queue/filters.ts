import type { Entry, Page } from "./loading";

export interface Filters {
  /** Words that must all match: parts of a name or id, or a complete owner, project or pool. */
  readonly text: string;
  readonly reason: string;
  readonly priority: string;
}

export const ANY = "any";
/** The server's limit. */
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

/** The part of the filters that the server applies: the longest word, and a priority. The page applies the rest. */
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
 * Whether a page has all sessions for these filters.
 *
 * @param asked the `Wanted` of the page, as JSON.
 */
export function hasAll({ isFound, isCut }: Page, asked: string, filters: Filters): boolean {
  return Boolean(isFound && !isCut) && asked === JSON.stringify(wantedOf(filters));
}

/** The reasons of these sessions, in the order of the queue. */
export function reasonsOf(entries: readonly Entry[]): string[] {
  return [...new Set(entries.flatMap(({ session }) => session.waits?.reason ?? []))];
}
