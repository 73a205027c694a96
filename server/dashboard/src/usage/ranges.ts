const HOUR_S = 3_600;
const DAY_S = 24 * HOUR_S;

/** How far back is looked, and in which steps. */
export const RANGES = {
  day: { text: "Day", s: DAY_S, stepS: HOUR_S, each: "hour" },
  week: { text: "Week", s: 7 * DAY_S, stepS: 6 * HOUR_S, each: "six hours" },
  month: { text: "Month", s: 30 * DAY_S, stepS: DAY_S, each: "day, UTC" },
} as const;

export type Range = keyof typeof RANGES;

/** What an address names; a day when that is none. */
export function rangeOf(text: string | null): Range {
  return text !== null && Object.hasOwn(RANGES, text) ? (text as Range) : "day";
}

/** The last so many whole steps, the running one among them: the plots of a page begin at the same moment. */
export function sinceOf(range: Range, nowMs: number): string {
  const { s, stepS } = RANGES[range];
  const step = stepS * 1000;
  return new Date(Math.floor(nowMs / step) * step - (s - stepS) * 1000).toISOString();
}
