export interface Reading {
  readonly id: string;
  readonly name: string;
  readonly where: string;
  readonly utilization_pct: number | null;
  readonly memory_used_bytes: number | null;
}

const SAMPLES_MAX = 1_800;

/** Readings of several devices over time, in columns, as a plot wants them. */
export class Readings {
  /** Seconds since the epoch. */
  times: number[] = [];
  names: string[] = [];
  busy: (number | null)[][] = [];
  memory: (number | null)[][] = [];
  private readonly rows = new Map<string, number>();

  get count(): number {
    return this.times.length;
  }

  add(atMs: number, readings: readonly Reading[]): void {
    for (const reading of readings) this.rowOf(reading);
    const byRow = new Map(readings.map((reading) => [this.rowOf(reading), reading]));
    const drop = this.times.length >= SAMPLES_MAX ? 1 : 0;
    this.times = [...this.times.slice(drop), atMs / 1000];
    this.busy = this.busy.map((row, index) => [...row.slice(drop), byRow.get(index)?.utilization_pct ?? null]);
    this.memory = this.memory.map((row, index) => {
      const used = byRow.get(index)?.memory_used_bytes;
      return [...row.slice(drop), used === null || used === undefined ? null : used / 2 ** 30];
    });
  }

  private rowOf(reading: Reading): number {
    const known = this.rows.get(reading.id);
    if (known !== undefined) return known;
    const row = this.names.length;
    this.rows.set(reading.id, row);
    this.names = [...this.names, `${reading.name} on ${reading.where}`];
    this.busy = [...this.busy, this.times.map(() => null)];
    this.memory = [...this.memory, this.times.map(() => null)];
    return row;
  }
}
