import { bytes } from "../format/amounts";
import { duration } from "../format/times";
import type { SessionStepsQuery } from "../generated/graphql";
import type { Session } from "./loading";
import { isEnded, isWaiting, stateOf } from "./standing";

export type Step = SessionStepsQuery["session_steps"]["edges"][number]["node"];
export type Receipt = NonNullable<Step["preemption"]>;

/** The steps of a session that the server still has. */
export interface Course {
  /** Oldest first. */
  readonly steps: readonly Step[];
  /** Whether earlier steps are missing. */
  readonly isCut: boolean;
}

export interface Stage {
  readonly step: Step;
  /** Duration so far; null for an end. */
  readonly ms: number | null;
}

/** One attempt, from the wait before it to its end. */
export interface Attempt {
  readonly number: number;
  /** Whether devices were granted; otherwise it only waited. */
  readonly isTried: boolean;
  readonly stages: readonly Stage[];
}

/** The attempts, newest first. */
export function attemptsOf(steps: readonly Step[], now: number): Attempt[] {
  const found: { number: number; isTried: boolean; stages: Stage[] }[] = [];
  steps.forEach((step, index) => {
    // An array itself has no attempts, only its tasks have.
    const own = Math.max(1, step.attempt + (isWaiting(step.state) ? 1 : 0));
    const number = isEnded(step.state) ? (found.at(-1)?.number ?? own) : own;
    if (found.at(-1)?.number !== number) found.push({ number, isTried: false, stages: [] });
    const end = steps[index + 1] ? Date.parse(steps[index + 1]?.at ?? "") : now;
    const attempt = found.at(-1);
    attempt?.stages.push({ step, ms: isEnded(step.state) ? null : Math.max(0, end - Date.parse(step.at)) });
    if (attempt && step.attempt === number) attempt.isTried = true;
  });
  return found.reverse();
}

/** The preemptions since the last retry, newest first; `newest` replaces the step's record of the same preemption. */
export function receiptsOf(steps: readonly Step[], newest: Receipt | null): Receipt[] {
  const since = steps.slice(steps.findLastIndex(({ kind }) => kind === "session.retried") + 1);
  const found = new Map(since.flatMap(({ preemption }) => (preemption ? [[preemption.at, preemption]] : [])));
  if (newest) found.set(newest.at, newest);
  return [...found.values()].sort((one, other) => Date.parse(other.at) - Date.parse(one.at));
}

/** Whether a step cannot be the first: sessions start waiting, tasks with devices, external allocations running. */
export function isLater({ state, attempt }: Step): boolean {
  return attempt > (state === "scheduled" || state === "running" ? 1 : 0);
}

/**
 * The steps to show. The first event of a task is its grant; its wait is added from the session's times. An array of
 * which some tasks run is shown as running; it was queued for as long as one of its tasks was.
 */
export function stepsOf(session: Moments, steps: readonly Step[]): readonly Step[] {
  const known = withWait(session, steps);
  const found = session.tasks ? known.map(ofArray) : known;
  const last = found.at(-1);
  if (!last || last.state !== session.state || stateOf(session) === session.state) return found;
  return [...found.slice(0, -1), { ...last, kind: "array.running", state: stateOf(session) }];
}

function ofArray(step: Step, at: number, steps: readonly Step[]): Step {
  return step.state === "queued" && at < steps.length - 1 ? { ...step, kind: "array.queued" } : step;
}

function withWait(session: Moments, steps: readonly Step[]): readonly Step[] {
  const own = ownSteps(session);
  const [first] = steps;
  const [wait] = own;
  if (!first || !wait) return own;
  const isWaitMissing =
    first.state === "scheduled" && first.attempt === 1 && Date.parse(wait.at) <= Date.parse(first.at);
  return isWaitMissing ? [{ ...wait, kind: "session.queued", state: "queued", attempt: 0 }, ...steps] : steps;
}

/** The steps of the newest attempt, from the session's own times, if the server has no others. */
export function ownSteps(session: Moments): Step[] {
  const { queued_at, scheduled_at, started_at, ended_at, state, attempt, held_by } = session;
  const moments = [
    [queued_at, held_by ? "held" : "queued", scheduled_at ? Math.max(0, attempt - 1) : attempt],
    [scheduled_at, "scheduled", attempt],
    [started_at, "running", attempt],
    [ended_at, state, attempt],
  ] as const;
  return moments.flatMap(([at, state, attempt], number) =>
    at ? [{ number, at, kind: `session.${state}`, state, attempt, held_by, preemption: null, pull: null }] : [],
  );
}

type Moments = Pick<
  Session,
  "queued_at" | "scheduled_at" | "started_at" | "ended_at" | "state" | "attempt" | "held_by"
> &
  Parameters<typeof stateOf>[0];

/** A note about a step, beyond its state. */
export function noteOf({ kind, held_by, preemption, pull, state }: Step): string {
  if (state === "held" && held_by) return `by ${held_by}`;
  if (state === "preempting" && preemption) return `for ${preemption.by_user}`;
  if (pull?.ended_at) {
    const took = duration(Date.parse(pull.ended_at) - Date.parse(pull.began_at));
    return `image pulled on ${pull.agent_id} in ${took}${pull.size ? `, ${bytes(pull.size)}` : ""}`;
  }
  if (pull) return `pulling the image on ${pull.agent_id}`;
  return NOTES[kind] ?? "";
}

const NOTES: Readonly<Record<string, string>> = {
  "array.queued": "until its last task was started",
  "array.running": "counted from its submission",
  "session.requeued": "waiting for another attempt",
  "session.retried": "run again",
  "session.released": "released",
  "session.scheduled": "devices granted",
  "session.allocating": "kernels starting",
  "session.expired": "time limit reached",
};
