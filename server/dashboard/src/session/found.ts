import type { SessionPartsFragment } from "../generated/graphql";

export interface Found {
  /** Null if there is no session with this id, or the viewer may not see it. */
  readonly session: SessionPartsFragment | null;
  /** The number of the last event included. */
  readonly revision: number;
}

/** The newer one of a query's result and a subscription's update. */
export function newerOf(asked: Found | null, updated: Found | null): Found | null {
  return updated && (!asked || updated.revision > asked.revision) ? updated : asked;
}

/**
 * Whether the session is gone, whatever was seen before: the newest answer is without it. Event numbers do not tell that,
 * as a new database counts from the beginning.
 *
 * @param asked the newest answer, and its time.
 * @param updatedAt the time of the last update by a subscription that is no longer open.
 */
export function isGone(asked: { readonly data: Found | null; readonly at: number | null }, updatedAt: number): boolean {
  return asked.data?.session === null && (asked.at ?? 0) > updatedAt;
}
