import { quantities } from "../format/amounts";
import type { SessionState } from "../generated/graphql";

export const WAITING: readonly SessionState[] = ["queued", "held"];
export const ACTIVE: readonly SessionState[] = ["scheduled", "allocating", "running", "preempting"];
export const ENDED: readonly SessionState[] = ["completed", "failed", "canceled"];

export const isWaiting = (state: SessionState) => WAITING.includes(state);
export const isEnded = (state: SessionState) => ENDED.includes(state);

/** The state to show for a session; an array is running while one of its tasks is, even if others wait. */
export function stateOf(session: {
  readonly state: SessionState;
  readonly tasks?: { readonly active: { readonly count: number } } | null;
}): SessionState {
  return isWaiting(session.state) && (session.tasks?.active.count ?? 0) > 0 ? "running" : session.state;
}

/** Whether it holds its devices for a terminal, as `aliquot shell` starts it. */
export const isInteractive = (session: { readonly command: readonly string[] }) =>
  session.command.some((word) => word.includes("$CHECKPOINT_DIR/.terminal"));

/** The request of a session: `8 GPUs, 64 GiB`, or `2 × (8 GPUs, 64 GiB)` with several kernels. */
export function asked(session: {
  readonly cluster_size: number;
  readonly slots: readonly { readonly slot: string; readonly amount: string }[];
}): string {
  const words = quantities(session.slots);
  return session.cluster_size > 1 ? `${session.cluster_size} × (${words})` : words;
}

/** The name of a session; of a task with its index, like `sweep_5`, to distinguish the tasks of an array. */
export function nameOf(session: { readonly id: string; readonly name: string | null }): string {
  const index = /_\d+$/.exec(session.id)?.[0] ?? "";
  return session.name ? `${session.name}${index}` : tailOf(session.id);
}

/** The id of the array of a task; null for all other sessions. */
export function arrayOf(id: string): string | null {
  return /^(ses_.+)_\d+$/.exec(id)?.[1] ?? null;
}

/** The end of an id, as sessions of the same time share its beginning. */
export function tailOf(id: string): string {
  const [stem = "", ...rest] = id.split(/(?=_\d+$)/);
  return `…${stem.slice(-6)}${rest.join("")}`;
}

/** An id as the shell writes and takes it: its last eight characters, of a task with its index. */
export function shortOf(id: string): string {
  return /[^_]{1,8}(_\d+)?$/.exec(id)?.[0] ?? id;
}

/** The outcome of a session beyond its state; empty if there is none. */
export function ending(session: {
  readonly exit_code: number | null;
  readonly signal: number | null;
  readonly failure: { readonly message: string } | null;
}): string {
  if (session.failure) return session.failure.message;
  if (session.signal) return `signal ${session.signal}`;
  return session.exit_code ? `exit code ${session.exit_code}` : "";
}

/** What to know about the agent of a kernel; empty without a problem. */
export function caveat(
  kernel: { readonly agent_id: string; readonly ended_at: string | null },
  devices: readonly { readonly where: string; readonly isLost: boolean }[],
): string {
  const isLost = devices.some((device) => device.isLost && device.where === kernel.agent_id);
  return isLost && !kernel.ended_at ? "agent lost; its processes may still run" : "";
}

/** The outcome of a bulk action: `Held: 2 of 3. train: it runs already`. */
export function summary(done: string, count: number, refused: readonly string[]): string {
  if (refused.length === 0) return `${done}: ${count === 1 ? "1 session" : `${count} sessions`}.`;
  const more = refused.length > 1 ? ` (and ${refused.length - 1} more)` : "";
  return `${done}: ${count - refused.length} of ${count}. ${refused[0]}${more}`;
}
