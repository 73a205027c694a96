import { Observable } from "./observable";

/** How far the server's clock is ahead of this computer's, in milliseconds; 0 while the two agree to a minute. */
export const clockOffset = new Observable(0);

const TOLERANCE_MS = 60_000;
/** Answers may come from several servers, whose clocks differ: what is shown must not follow each of them. */
const PAUSE_MS = 60_000;
let changedAt = Number.NEGATIVE_INFINITY;
/** The `Date` of an answer has no fractions of seconds. */
const DATE_MS = 1_000;

/** The time by the server's clock, milliseconds since the epoch: that of this computer may be hours off. */
export function serverNow(): number {
  return Date.now() + clockOffset.get();
}

/**
 * Learns the server's time from an answer.
 *
 * @param date the header `Date`.
 * @param askedMs when the request was sent, by this computer's clock: the answer may have been read much later than it
 *   was written, as in a tab that was suspended meanwhile.
 */
export function learnTime(date: string | null, askedMs: number): void {
  const serverMs = Date.parse(date ?? "");
  if (Number.isNaN(serverMs)) return;
  const [least, most] = [serverMs - Date.now(), serverMs + DATE_MS - askedMs];
  const known = clockOffset.get();
  const isRight = known >= least - TOLERANCE_MS && known <= most + TOLERANCE_MS;
  if (isRight || performance.now() - changedAt < PAUSE_MS) return;
  changedAt = performance.now();
  clockOffset.set((least + most) / 2);
}
