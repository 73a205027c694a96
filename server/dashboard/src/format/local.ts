const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** A time as the browser's control has it, in the viewer's zone, to the minute: 2027-01-31T14:00. */
export function localText(ms: number): string {
  return new Date(ms - offsetMs(ms)).toISOString().slice(0, 16);
}

/** The next full hour by the viewer's clock, which in some zones is not one of UTC. */
export function nextHour(ms: number): number {
  const offset = offsetMs(ms);
  return (Math.floor((ms - offset) / HOUR_MS) + 1) * HOUR_MS + offset;
}

/**
 * The moment of a time in the browser's control; NaN if it is none. Of a time that comes twice, because the clocks are
 * set back, it is the first, or the given moment where the text has not changed since.
 */
export function momentOfLocal(text: string, given?: number): number {
  return given !== undefined && text === localText(given) ? given : Date.parse(text);
}

/** Whether the clocks of the viewer's zone skip a time: they are set forward over it. */
export function isSkipped(text: string): boolean {
  const ms = Date.parse(text);
  return !Number.isNaN(ms) && localText(ms) !== text.slice(0, 16);
}

/** Which of two moments with the same clock time this is, as the clocks are set back; null if it is alone. */
export function turnOf(ms: number): "first" | "second" | null {
  const later = offsetMs(ms + DAY_MS) - offsetMs(ms);
  if (later > 0 && offsetMs(ms + later) - offsetMs(ms) === later) return "first";
  const earlier = offsetMs(ms) - offsetMs(ms - DAY_MS);
  return earlier > 0 && offsetMs(ms) - offsetMs(ms - earlier) === earlier ? "second" : null;
}

/** What is wrong with a time in the form, or what the clock change does to it. */
export function changeText(text: string, ms: number): { readonly wrong?: string; readonly hint?: string } {
  if (isSkipped(text)) return { wrong: "The clocks are set forward over this time." };
  if (Number.isNaN(ms)) return { wrong: "Enter a date and a time." };
  const turn = turnOf(ms);
  return turn ? { hint: `The clocks are set back: this time comes twice, and the ${turn} is meant.` } : {};
}

/** What is local time behind UTC. */
function offsetMs(ms: number): number {
  return new Date(ms).getTimezoneOffset() * MINUTE_MS;
}
