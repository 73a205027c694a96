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
