import { duration, moment } from "../format/times";
import type { WhatIfQuery } from "../generated/graphql";

export type Effect = Extract<WhatIfQuery["what_if"], { __typename: "WhatIf" }>;

const sessions = (count: number) => (count === 1 ? "1 session" : `${count} sessions`);

/** A future time: "now", or "at" and the time. */
export function whenText(when: string, now: number): string {
  return Date.parse(when) <= now + 1000 ? "now" : `at ${moment(when, now)}`;
}

/** When a preempted session would run again. */
export function againOf({ after }: Effect["restarts"][number], now: number): string {
  return after === null ? "when it would run again is unknown" : `runs again ${whenText(after, now)}`;
}

/** The effect of a change in sentences: who is preempted, and who starts now, later or sooner. */
export function sentencesOf(effect: Effect): string[] {
  const { restarts, starts, later_count: later, sooner_count: sooner, wait_before: before, wait_after: after } = effect;
  const found = [
    restarts.length ? `${sessions(restarts.length)} would be preempted and queued again.` : "",
    starts.length ? `${sessions(starts.length)} would start now.` : "",
    later ? `${sessions(later)} would start later.` : "",
    sooner ? `${sessions(sooner)} would start sooner.` : "",
  ].filter(Boolean);
  // Also while scheduling is stopped, which a note says too.
  if (!found.length && !effect.note?.includes("later starts are unknown"))
    found.push("No waiting session would start later or sooner.");
  if (before !== null && after !== null && before !== after) {
    const times = `${duration(before * 1000)} now, ${duration(after * 1000)} then`;
    found.push(`Mean time until they start: ${times}, if all sessions run for as long as planned.`);
  }
  return effect.note ? [...found, `${effect.note}.`] : found;
}
