import { duration } from "../format/times";
import type { WhatIfQuery } from "../generated/graphql";

export type Effect = Extract<WhatIfQuery["what_if"], { __typename: "WhatIf" }>;

const sessions = (count: number) => (count === 1 ? "1 session" : `${count} sessions`);

/** The effect of a change in sentences: who is preempted, and who starts now, later or sooner. */
export function sentencesOf(effect: Effect): string[] {
  const {
    displaced,
    starts,
    later_count: later,
    sooner_count: sooner,
    wait_before: before,
    wait_after: after,
  } = effect;
  const found = [
    displaced.length ? `${sessions(displaced.length)} would be preempted and queued again.` : "",
    starts.length ? `${sessions(starts.length)} would start now.` : "",
    later ? `${sessions(later)} would start later.` : "",
    sooner ? `${sessions(sooner)} would start sooner.` : "",
  ].filter(Boolean);
  if (!found.length && !effect.note) found.push("No waiting session would start later or sooner.");
  if (before !== null && after !== null && before !== after) {
    const times = `${duration(before * 1000)} now, ${duration(after * 1000)} then`;
    found.push(`Mean time until they start: ${times}, if all sessions run for as long as planned.`);
  }
  return effect.note ? [...found, `${effect.note}.`] : found;
}
