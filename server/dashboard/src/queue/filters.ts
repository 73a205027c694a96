import type { SessionFilter, SessionState } from "../generated/graphql";
import type { Entry, Page } from "./loading";

export interface Filters {
  /** Words that must all match: parts of a name, id or tag, or a complete owner, project or pool. */
  readonly text: string;
  readonly owner: string;
  readonly project: string;
  /** `name` or `name=value`. */
  readonly tag: string;
  /** Id of a job array, for its tasks. */
  readonly array: string;
  readonly reason: string;
  readonly priority: string;
}

export const ANY = "any";
/** The server's limit. */
const WORD_MAX = 200;
export const NO_FILTERS: Filters = {
  text: "",
  owner: "",
  project: "",
  tag: "",
  array: "",
  reason: ANY,
  priority: ANY,
};

export function matching(entries: readonly Entry[], filters: Filters): Entry[] {
  const words = filters.text.toLowerCase().split(/\s+/).filter(Boolean);
  return entries.filter(({ session }) => {
    const tags = session.tags.flatMap(({ name, value }) => [name, `${name}=${value}`]);
    const hay = [session.name, session.owner, session.project, session.id, session.pool, ...tags]
      .join("\n")
      .toLowerCase();
    return (
      words.every((word) => hay.includes(word)) &&
      [session.owner, ""].includes(filters.owner) &&
      [session.project, ""].includes(filters.project) &&
      ["", ...tags].includes(filters.tag.trim()) &&
      (filters.reason === ANY || session.waits?.reason === filters.reason) &&
      (filters.priority === ANY || session.priority === filters.priority)
    );
  });
}

/** The part of the filters that the server applies: the longest word and the fields. The page applies the rest. */
export interface Wanted extends Omit<Filters, "text" | "reason"> {
  readonly word: string;
}

export function wantedOf({ text, reason: _, ...fields }: Filters): Wanted | null {
  const word = text
    .split(/\s+/)
    .reduce((longest, next) => (next.length > longest.length ? next : longest), "")
    .slice(0, WORD_MAX);
  const isWanted = word || fields.owner || fields.project || fields.tag || fields.array || fields.priority !== ANY;
  return isWanted ? { word, ...fields } : null;
}

/** The fields that are filtered by, as the server takes them. */
export function filterOf(states: readonly SessionState[], wanted: Wanted): SessionFilter {
  return {
    states,
    priorities: wanted.priority === ANY ? null : [wanted.priority],
    owners: wanted.owner ? [wanted.owner] : null,
    projects: wanted.project ? [wanted.project] : null,
    tags: wanted.tag.trim() ? [wanted.tag.trim()] : null,
    array_id: wanted.array || null,
  };
}

/**
 * Whether a page has all sessions for these filters.
 *
 * @param asked the `Wanted` of the page, as JSON.
 */
export function hasAll(page: Page, asked: string, filters: Filters): boolean {
  const isWhole = page.isFound ? !page.isCut : asked !== "null" && page.from === 0 && page.next === null;
  return isWhole && asked === JSON.stringify(wantedOf(filters));
}

/** The reasons of these sessions, in the order of the queue. */
export function reasonsOf(entries: readonly Entry[]): string[] {
  return [...new Set(entries.flatMap(({ session }) => session.waits?.reason ?? []))];
}
