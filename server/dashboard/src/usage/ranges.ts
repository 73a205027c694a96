const MINUTE_S = 60;
const HOUR_S = 60 * MINUTE_S;
const DAY_S = 24 * HOUR_S;

/** The periods of the page, with their steps. */
export const RANGES = {
  hour: { text: "1 h", s: HOUR_S, stepS: 5 * MINUTE_S, each: "5 minutes" },
  day: { text: "24 h", s: DAY_S, stepS: HOUR_S, each: "hour" },
  week: { text: "7 d", s: 7 * DAY_S, stepS: 6 * HOUR_S, each: "6 hours" },
  month: { text: "30 d", s: 30 * DAY_S, stepS: DAY_S, each: "day, UTC" },
} as const;

export type Range = keyof typeof RANGES;

/** A period in steps of equal length. */
export interface Period {
  /** Its name in the address; "custom" is given by its ends. */
  readonly id: Range | "custom";
  /** Start, at the start of a step, so that all plots of a page begin at the same time; ISO 8601. */
  readonly since: string;
  /** End; null = now. */
  readonly until: string | null;
  readonly stepS: number;
  readonly points: number;
  /** The length of a step in words. */
  readonly each: string;
}

/** The period in an address; a day by default. */
export function rangeOf(text: string | null): Range {
  return text !== null && Object.hasOwn(RANGES, text) ? (text as Range) : "day";
}

/** Start of the period, at the start of a step. */
export function sinceOf(range: Range, nowMs: number): string {
  const { s, stepS } = RANGES[range];
  const step = stepS * 1000;
  return new Date(Math.floor(nowMs / step) * step - (s - stepS) * 1000).toISOString();
}

/** The period in an address: `range`, or `from` and `to` in ISO 8601. */
export function periodOf(search: URLSearchParams, nowMs: number): Period {
  const [from, to] = [Date.parse(search.get("from") ?? ""), Date.parse(search.get("to") ?? "")];
  if (from < to && from < nowMs) return customPeriod(from, Math.min(to, nowMs));
  const range = rangeOf(search.get("range"));
  const { s, stepS, each } = RANGES[range];
  return { id: range, since: sinceOf(range, nowMs), until: null, stepS, points: s / stepS, each };
}

/** Why the page does not show the `from` and `to` of an address, which may be typed; null = it does. */
export function faultOf(search: URLSearchParams, nowMs: number): string | null {
  if (!search.has("from") && !search.has("to")) return null;
  const period = periodOf(search, nowMs);
  if (period.id === "custom") return null;
  const isFuture = Date.parse(search.get("from") ?? "") >= nowMs;
  const why = isFuture
    ? "The period in the address begins in the future"
    : "The address needs from and a later to, like from=2027-05-01&to=2027-05-08";
  return `${why}: the last ${RANGES[period.id].text} are shown.`;
}

const STEPS_S = [1, 5, 15, 30, 60, 180, 360, 720, 1440].map((minutes) => minutes * MINUTE_S);
const POINTS_WANTED = 40;

function customPeriod(fromMs: number, toMs: number): Period {
  const wanted = (toMs - fromMs) / 1000 / POINTS_WANTED;
  const stepS = STEPS_S.find((one) => one >= wanted) ?? DAY_S;
  const start = Math.floor(fromMs / 1000 / stepS) * stepS;
  const points = Math.max(1, Math.ceil((toMs / 1000 - start) / stepS));
  const [count, unit] =
    stepS < HOUR_S ? [stepS / MINUTE_S, "minute"] : stepS < DAY_S ? [stepS / HOUR_S, "hour"] : [1, "day, UTC"];
  return {
    id: "custom",
    since: new Date(start * 1000).toISOString(),
    until: new Date((start + points * stepS) * 1000).toISOString(),
    stepS,
    points,
    each: count === 1 ? String(unit) : `${count} ${unit}s`,
  };
}
