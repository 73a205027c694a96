const HOUR_S = 3_600;
const DAY_S = 24 * HOUR_S;

/** The periods of the page, with their steps. */
export const RANGES = {
  day: { text: "Day", s: DAY_S, stepS: HOUR_S, each: "hour" },
  week: { text: "Week", s: 7 * DAY_S, stepS: 6 * HOUR_S, each: "6 hours" },
  month: { text: "Month", s: 30 * DAY_S, stepS: DAY_S, each: "day, UTC" },
} as const;

export type Range = keyof typeof RANGES;

/** The period in an address; a day by default. */
export function rangeOf(text: string | null): Range {
  return text !== null && Object.hasOwn(RANGES, text) ? (text as Range) : "day";
}

/** Start of the period, at the start of a step, so that all plots of a page begin at the same time. */
export function sinceOf(range: Range, nowMs: number): string {
  const { s, stepS } = RANGES[range];
  const step = stepS * 1000;
  return new Date(Math.floor(nowMs / step) * step - (s - stepS) * 1000).toISOString();
}
