import type { FoundSessionsFragment } from "../generated/graphql";
import type { Entry, Page } from "./loading";

/** Joins the results of a search; each session once. */
export function merged(found: readonly FoundSessionsFragment[]): Page {
  const rows = new Map(found.flatMap(({ edges }) => edges.map(({ node }) => [node.id, node] as const)));
  const entries = [...rows.values()].map((session): Entry => ({ position: session.queue_position, session }));
  entries.sort(byPlace);
  const isCut = found.some(({ pageInfo }) => pageInfo.hasNextPage);
  return { total: entries.length, entries, isFound: true, isCut };
}

function byPlace(one: Entry, other: Entry): number {
  if (one.position !== null || other.position !== null) {
    return (one.position ?? Infinity) - (other.position ?? Infinity);
  }
  return one.session.id < other.session.id ? 1 : -1;
}
