import { amountOf } from "../format/amounts";
import type { DeviceTimelineQuery } from "../generated/graphql";

export type Holding = DeviceTimelineQuery["device_timeline"][number];

export interface Bar {
  readonly holding: Holding;
  /** Edges in percent of the shown period. */
  readonly left: number;
  readonly width: number;
  /** Row within the device, from 0: holdings at the same time are below each other. */
  readonly lane: number;
}

export interface Span {
  /** Milliseconds since the epoch. */
  readonly from: number;
  readonly to: number;
}

/** The bars of one device in a period, and the number of lanes that they need. */
export function barsOf(holdings: readonly Holding[], { from, to }: Span): { bars: Bar[]; lanes: number } {
  const ends: number[] = [];
  const bars = joined(holdings)
    .filter((one) => Date.parse(one.since) < to && endOf(one, to) > from)
    .sort((one, other) => Date.parse(one.since) - Date.parse(other.since))
    .map((holding): Bar => {
      const begin = Date.parse(holding.since);
      const end = endOf(holding, to);
      const free = ends.findIndex((until) => until <= begin);
      const lane = free < 0 ? ends.length : free;
      ends[lane] = end;
      const left = (100 * (Math.max(begin, from) - from)) / (to - from);
      const right = (100 * (Math.min(end, to) - from)) / (to - from);
      return { holding, left, width: right - left, lane };
    });
  return { bars, lanes: Math.max(1, ends.length) };
}

/** The holdings of a lease as one: a lease may hold several slots of a device. */
function joined(holdings: readonly Holding[]): Holding[] {
  const byLease = new Map<string, Holding>();
  for (const one of holdings) {
    const known = byLease.get(one.lease_id);
    if (!known || amountOf(known.amount) < amountOf(one.amount)) byLease.set(one.lease_id, one);
  }
  return [...byLease.values()];
}

function endOf(holding: Holding, now: number): number {
  return holding.until === null ? now : Date.parse(holding.until);
}

/** Round times within a period, about `count` of them. */
export function ticksOf({ from, to }: Span, count: number): number[] {
  const wanted = (to - from) / count;
  const step = STEPS_MS.find((one) => one >= wanted) ?? STEPS_MS.at(-1) ?? wanted;
  const offset = new Date(from).getTimezoneOffset() * MINUTE_MS;
  const first = Math.ceil((from - offset) / step) * step;
  // Longer steps than the hour of a clock change follow the clock, so that days begin at 00:00 after it too.
  const momentOf = step > HOUR_MS ? momentOfClock : (clock: number) => clock + offset;
  const ticks: number[] = [];
  for (let clock = first, at = momentOf(first); at < to; at = momentOf((clock += step))) ticks.push(at);
  return ticks;
}

/** The moment at which the viewer's clock shows a time, which is given as if it were UTC. */
function momentOfClock(clock: number): number {
  return Date.parse(new Date(clock).toISOString().slice(0, -1));
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const STEPS_MS = [
  ...[1 / 6, 0.5, 1, 5, 10, 15, 30].map((minutes) => minutes * MINUTE_MS),
  ...[1, 2, 3, 6, 12, 24].map((hours) => hours * HOUR_MS),
];
