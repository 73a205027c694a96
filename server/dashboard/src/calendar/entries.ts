import { duration } from "../format/times";
import { inLabels } from "../format/words";
import type { BookingEffectQuery, BookingsQuery, RunningSessionsQuery } from "../generated/graphql";

export type Booking = BookingsQuery["reservations"][number];
export type Running = RunningSessionsQuery["sessions"]["edges"][number]["node"];

/** What the calendar shows: a booking, or a running session until its expected end. Times in milliseconds. */
export interface Entry {
  readonly id: string;
  readonly title: string;
  readonly owner: string;
  readonly nodes: readonly string[];
  readonly fromMs: number;
  readonly toMs: number;
  /** Whether its end is known. If not, it is drawn up to the end of the calendar. */
  readonly hasEnd: boolean;
  readonly gpus: number;
  readonly booking: Booking | null;
  readonly session: Running | null;
}

export type Grouping = "person" | "node";

/** Bookings and running sessions as entries; a session without a known end lasts until the shown period ends. */
export function entriesOf(
  found: { readonly bookings: readonly Booking[]; readonly running: readonly Running[] },
  untilMs: number,
  nowMs: number,
  hosts: ReadonlyMap<string, string> = new Map(),
): Entry[] {
  const booked = found.bookings.map((booking) => ({
    id: booking.id,
    title: booking.kind === "maintenance" ? `Maintenance: ${booking.nodes.join(", ")}` : booking.name,
    owner: booking.owner,
    nodes: booking.kind === "maintenance" ? booking.nodes : [...new Set(booking.devices.map((gpu) => gpu.hostname))],
    fromMs: Date.parse(booking.starts_at),
    toMs: Date.parse(booking.ends_at),
    hasEnd: true,
    gpus: booking.gpus,
    booking,
    session: null,
  }));
  const running = found.running.map((node) => {
    const endMs = endOf(node);
    return {
      id: node.id,
      title: `${node.name ?? "session"} ${endMs === null ? "runs, end unknown" : "runs"}`,
      owner: node.owner,
      nodes: [...new Set(node.kernels.map(({ agent_id }) => hosts.get(agent_id) ?? agent_id))],
      fromMs: node.started_at === null ? nowMs : Date.parse(node.started_at),
      toMs: endMs === null ? untilMs : Math.max(endMs, nowMs),
      hasEnd: endMs !== null,
      gpus: node.requested_gpus,
      booking: null,
      session: node,
    };
  });
  return [...booked, ...running];
}

/** The forecast end of a running session, else the end of its time limit; null if neither is known. */
export function endOf(session: Running): number | null {
  const forecast = session.forecast?.now?.end?.p50;
  if (forecast) return Date.parse(forecast);
  if (session.time_limit === null || session.started_at === null) return null;
  return Date.parse(session.started_at) + session.time_limit * 1000;
}

/** The most GPUs that bookings of others hold at any moment of a window. */
export function bookedAtMost(bookings: readonly Booking[], fromMs: number, toMs: number): number {
  const held = bookings.filter(
    (one) => one.state === "booked" && Date.parse(one.starts_at) < toMs && fromMs < Date.parse(one.ends_at),
  );
  const moments = [fromMs, ...held.map((one) => Math.max(fromMs, Date.parse(one.starts_at)))];
  return Math.max(
    ...moments.map((at) =>
      held
        .filter((one) => Date.parse(one.starts_at) <= at && at < Date.parse(one.ends_at))
        .reduce((sum, one) => sum + one.gpus, 0),
    ),
  );
}

/** The labels of the form that books, by the API's names. */
export const LABELS = { name: "Name", gpus: "GPUs", starts_at: "From", ends_at: "To", models: "Models" } as const;

/** What a booking would do to waiting sessions, in words. */
export function effectText(effect: BookingEffectQuery["reservation_effect"]): string {
  if (effect.refusal !== null) return `It would be refused. ${inLabels(effect.refusal, LABELS)}.`;
  if (effect.delayed_count === 0) return "It would delay no waiting session.";
  const count = effect.delayed_count === 1 ? "1 session" : `${effect.delayed_count} sessions`;
  return effect.delay_max === null
    ? `It would delay ${count}.`
    : `It would delay ${count} by up to ${duration(effect.delay_max * 1000)}.`;
}
