import type { OtherSessionPartsFragment, SessionWhyQuery, UpdateSessionInput } from "../generated/graphql";
import { duration, moment } from "../format/times";

export type Explanation = NonNullable<SessionWhyQuery["session_why"]>;
export type Remedy = Explanation["remedies"][number];
export type OtherSession = OtherSessionPartsFragment;

/** The input that applies a remedy; null if it is no change of the session's request. */
export function inputOf(id: string, remedy: Remedy): UpdateSessionInput | null {
  if (!remedy.change) return null;
  const given = Object.entries(remedy.change).filter(([, value]) => value !== null);
  return { ...Object.fromEntries(given), id };
}

/** Whether one click applies a remedy. A quota is raised on its own page. */
export const isClickable = (remedy: Remedy) => remedy.applies && (remedy.change !== null || remedy.kind === "release");

/** When a session starts with a remedy: `now`, `by 15:03`, or, by forecast, `about 3 h earlier (P50)`. */
export function whenOf(remedy: Remedy, now: number): string {
  if (remedy.p50_earlier !== null) return `about ${duration(remedy.p50_earlier * 1000)} earlier (P50)`;
  return remedy.starts_now ? "now" : `by ${moment(remedy.starts_at, now)}`;
}

/** Resources of another session, until when: `2 GPUs, until 15:03`. */
export function standingOf(other: OtherSession, now: number): string {
  const gpus = other.gpus ? `${other.gpus} GPU${other.gpus > 1 ? "s" : ""}` : "";
  const waits = other.state === "queued" || other.state === "held";
  const until = other.until ? `${waits ? "starts by" : "until"} ${moment(other.until, now)}` : "";
  const parts = [
    gpus,
    other.state,
    until,
    other.is_overdue ? "longer than expected" : "",
    other.preemptible ? "preemptible" : "",
  ];
  return parts.filter(Boolean).join(", ");
}
