import type { SessionPartsFragment } from "../generated/graphql";

export interface Found {
  /** Null when there is none of this id, or it is not yours to see. */
  readonly session: SessionPartsFragment | null;
  /** The number of the last event that this knows of. */
  readonly revision: number;
}

/** What was asked for, unless what was told is of a later event. */
export function newerOf(asked: Found | null, told: Found | null): Found | null {
  return told && (!asked || told.revision > asked.revision) ? told : asked;
}
