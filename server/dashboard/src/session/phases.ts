export interface Phase {
  readonly name: "waited" | "started up" | "ran" | "runs" | "waits" | "starts up";
  readonly ms: number;
}

interface Moments {
  readonly queued_at: string;
  readonly scheduled_at: string | null;
  readonly started_at: string | null;
  readonly ended_at: string | null;
}

/** What a session has spent its time on: waiting, starting, running; the last goes on until it has ended. */
export function phasesOf(session: Moments, now: number): Phase[] {
  const end = session.ended_at ? Date.parse(session.ended_at) : now;
  const isOver = session.ended_at !== null;
  const queued = Date.parse(session.queued_at);
  const scheduled = session.scheduled_at ? Date.parse(session.scheduled_at) : null;
  const started = session.started_at ? Date.parse(session.started_at) : null;
  const phases: Phase[] = [
    { name: isOver || scheduled !== null ? "waited" : "waits", ms: (scheduled ?? end) - queued },
  ];
  if (scheduled !== null) {
    phases.push({ name: isOver || started !== null ? "started up" : "starts up", ms: (started ?? end) - scheduled });
  }
  if (started !== null) phases.push({ name: isOver ? "ran" : "runs", ms: end - started });
  return phases.map((phase) => ({ ...phase, ms: Math.max(0, phase.ms) }));
}
