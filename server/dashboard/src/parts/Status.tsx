import type { SessionState } from "../generated/graphql";

const TONES: Record<SessionState, string> = {
  queued: "warn",
  held: "quiet",
  scheduled: "accent",
  allocating: "accent",
  running: "good",
  preempting: "warn",
  completed: "good",
  failed: "bad",
  canceled: "quiet",
};

/** A badge with a session's state, as text and colour. */
export function Status({ state }: { readonly state: SessionState }) {
  return <span className={`badge fill-${TONES[state]}`}>{state}</span>;
}
