import { keyOf, type Course, type Values } from "../history/course";

/** The metrics plotted for a device, as named in the history. */
export const METRICS = ["utilization", "memory_used", "power"] as const;
export type Metric = (typeof METRICS)[number];

export interface Reading {
  readonly id: string;
  readonly where: string;
  readonly utilization_pct: number | null;
  readonly memory_used_bytes: number | null;
  readonly power_w: number | null;
}

const SAMPLES_MAX = 1_800;
const READ: Readonly<Record<Metric, (reading: Reading) => number | null>> = {
  utilization: (reading) => reading.utilization_pct,
  memory_used: (reading) => reading.memory_used_bytes,
  power: (reading) => reading.power_w,
};

/** Readings of several devices since this page was opened. */
export class Readings {
  /** Seconds since the epoch. */
  private times: number[] = [];
  private readonly rows = new Map(METRICS.map((metric) => [metric, new Map<string, Values>()]));

  add(atMs: number, readings: readonly Reading[]): void {
    const drop = this.times.length >= SAMPLES_MAX ? 1 : 0;
    const before = this.times.slice(drop);
    this.times = [...before, atMs / 1000];
    const byKey = new Map(readings.map((reading) => [keyOf(reading.where, reading.id), reading]));
    for (const [metric, rows] of this.rows) {
      for (const key of new Set([...rows.keys(), ...byKey.keys()])) {
        const reading = byKey.get(key);
        const known = rows.get(key)?.slice(drop) ?? before.map(() => null);
        rows.set(key, [...known, reading ? READ[metric](reading) : null]);
      }
    }
  }

  courseOf(metric: Metric, scale = 1): Course {
    const scaled = (row: Values) => row.map((value) => (value === null ? null : value * scale));
    const rows = [...(this.rows.get(metric) ?? [])];
    return { times: this.times, rows: new Map(rows.map(([key, row]) => [key, scaled(row)])) };
  }
}
