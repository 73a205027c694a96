import { percent } from "../format/amounts";
import { clockTime, duration } from "../format/times";

interface Band {
  readonly p10: string;
  readonly p50: string;
  readonly p90: string;
}
interface Told {
  readonly starts_now: boolean;
  readonly start: Band | null;
  readonly unknown: string | null;
}
interface Newest extends Told {
  readonly age: number;
  readonly basis: string;
}
interface Likely {
  readonly now: Told | null;
  readonly missing: string | null;
}
export interface Forecast {
  readonly now: Newest | null;
  readonly alike: number | null;
  readonly alike_inside: number | null;
  readonly missing: string | null;
}

const SOON_MS = 30_000;

/** The likely start of a waiting session in a few words; a dash if it is unknown. */
export function likelyStart(forecast: Pick<Likely, "now"> | null, now: number): string {
  const told = forecast?.now;
  if (told?.starts_now) return "now";
  if (!told?.start) return "—";
  return isSoon(told.start, now) ? "within a minute" : `about ${clockTime(told.start.p50, now)}`;
}

/** When a waiting session starts, as a sentence. */
export function startSentence(forecast: Likely | null, now: number): string {
  const told = forecast?.now;
  if (!forecast || !told) return `No forecast: ${forecast?.missing ?? "none has been made yet"}.`;
  if (told.starts_now) return "Starts now: the next scheduling pass gives it devices.";
  if (!told.start) return `The start cannot be forecast: ${told.unknown ?? "there is too little history"}.`;
  return `Starts ${whenText(told.start, now)}.`;
}

/** How far a sentence of `startSentence` can be trusted; empty if nothing is known about that. */
export function trustSentence(forecast: Forecast | null): string {
  if (!forecast?.now?.start) return "";
  const { alike, alike_inside: inside, missing, now } = forecast;
  return [
    now.basis === "simulation"
      ? ""
      : "Recent waits are shown, because they were clearly more accurate than the simulation lately.",
    alike && inside !== null ? `Of ${alike} like this, ${percent(inside)} started inside the band.` : "",
    missing ? `Made ${duration(now.age * 1000)} ago: ${missing}.` : "",
  ]
    .filter(Boolean)
    .join(" ");
}

/** The forecast at submission, and whether it came true; null if no time was forecast. */
export function toldSentence(
  forecast: { readonly at_submission: Told | null; readonly came_true: boolean | null } | null,
  now: number,
): string | null {
  const told = forecast?.at_submission;
  if (!told?.start || told.starts_now) return null;
  const outcome = { true: "; it started inside this band", false: "; it did not", null: "" }[
    String(forecast?.came_true)
  ];
  return `${whenText(told.start, now)}${outcome ?? ""}`;
}

function whenText(band: Band, now: number): string {
  if (isSoon(band, now)) return "within a minute";
  const isOpen = Date.parse(band.p10) <= now && now < Date.parse(band.p50);
  const first = isOpen ? "now" : clockTime(band.p10, now);
  return `about ${clockTime(band.p50, now)}, between ${first} and ${clockTime(band.p90, now)}`;
}

function isSoon(band: Band, now: number): boolean {
  const last = Date.parse(band.p90);
  return last > now && last - now <= SOON_MS;
}
