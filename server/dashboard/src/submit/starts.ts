import { clockTime } from "../format/times";
import type { CreateSessionInput, StartsQuery } from "../generated/graphql";
import { likelyStart } from "../queue/forecast";
import { inForm } from "./objections";

export type Start = StartsQuery["preview_forecasts"][number];
type Foreseen = Extract<Start, { __typename: "PreviewForecast" }>;

/** Numbers of GPUs that are compared. */
export const COUNTS = ["1", "2", "4", "8"] as const;

/** The request with other numbers of GPUs per kernel; empty if it asks for no accelerators. */
export function variantsOf(request: CreateSessionInput, counts: readonly string[] = COUNTS): CreateSessionInput[] {
  const slots = request.slots ?? [];
  const own = slots.find(({ slot }) => /\.(device|shares)$/.test(slot));
  if (!own) return [];
  const slot = `${own.slot.split(".")[0]}.device`;
  return counts.map((amount) => ({
    ...without(request),
    slots: [{ slot, amount }, ...slots.filter((other) => other !== own)],
  }));
}

/** The request without parts that do not affect the start or are refused without a submission. */
function without({ environment, tags, name, run_id, secrets, ...request }: CreateSessionInput): CreateSessionInput {
  void [environment, tags, name, run_id, secrets];
  return request;
}

/** A start in a few words: `now`, `about 15:40`, `not possible`. */
export function shortStart(start: Start, now: number): string {
  if (start.__typename !== "PreviewForecast") return "not possible";
  const words = likelyStart(start.forecast, now);
  return words === "—" ? "unknown" : words;
}

/** The text below it: the band, or why there is none. */
export function bandText(start: Start, now: number): string {
  if (start.__typename !== "PreviewForecast") return "message" in start ? inForm(start.message) : "";
  const told = start.forecast.now;
  if (!told) return start.forecast.missing ?? "";
  if (told.starts_now) return "";
  return told.start ? `${clockTime(told.start.p10, now)} to ${clockTime(told.start.p90, now)}` : (told.unknown ?? "");
}

/** The forecast of a session that is not submitted; null if it would be refused. */
export const forecastOf = (start: Start): Foreseen["forecast"] | null =>
  start.__typename === "PreviewForecast" ? start.forecast : null;
