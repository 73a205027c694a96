import type { Entry } from "./loading";

export interface Filters {
  /** Parts of a name, owner, project or id; all of them must be found. */
  readonly text: string;
  readonly reason: string;
  readonly priority: string;
}

export const ANY = "any";
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

/** The reasons there are, in the order of the queue. */
export function reasonsOf(entries: readonly Entry[]): string[] {
  return [...new Set(entries.flatMap(({ session }) => session.waits?.reason ?? []))];
}
