import type { FoundSessionsFragment, SessionOrder } from "../generated/graphql";
import type { Entry, Page, Row } from "./loading";

/**
 * Joins the results of a search; each session once.
 *
 * @param sort empty: by place in the queue, then newest first.
 */
export function merged(found: readonly FoundSessionsFragment[], sort: SessionOrder | "" = ""): Page {
  const rows = new Map(found.flatMap(({ edges }) => edges.map(({ node }) => [node.id, node] as const)));
  const entries = [...rows.values()].map((session): Entry => ({ position: session.queue_position, session }));
  entries.sort(sort ? byValue(sort) : byPlace);
  const isCut = found.some(({ pageInfo }) => pageInfo.hasNextPage);
  return { total: entries.length, entries, from: 0, next: null, isFound: true, isCut };
}

/** By place in the queue, then newest first. */
export function byPlace(one: Entry, other: Entry): number {
  if (one.position !== null || other.position !== null) {
    return (one.position ?? Infinity) - (other.position ?? Infinity);
  }
  return one.session.id < other.session.id ? 1 : -1;
}

const PRIORITIES = ["low", "normal", "high", "critical"];
const VALUES: Readonly<Record<string, (row: Row) => string | number | null>> = {
  priority: (row) => PRIORITIES.indexOf(row.priority),
  started: (row) => row.started_at,
  ended: (row) => row.ended_at,
  gpus: (row) => row.requested_gpus,
  name: (row) => row.name,
};

/** The server's order: sessions without a value last, equal ones by submission in the same direction. */
function byValue(sort: SessionOrder): (one: Entry, other: Entry) => number {
  const value = VALUES[sort.replace(/_(asc|desc)$/, "")] ?? ((row: Row) => row.id);
  const sign = sort === "newest" || sort.endsWith("_desc") ? -1 : 1;
  return (one, other) => {
    const [mine, theirs] = [value(one.session), value(other.session)];
    if ((mine === null) !== (theirs === null)) return mine === null ? 1 : -1;
    if (mine !== null && theirs !== null && mine !== theirs) return mine < theirs ? -sign : sign;
    return one.session.id < other.session.id ? -sign : sign;
  };
}
