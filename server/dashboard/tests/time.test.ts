import { beforeEach, expect, test, vi } from "vitest";

let { clockOffset, learnTime, serverNow } = await import("../src/api/time");

const SERVER = Date.parse("2027-05-01T12:00:00Z");
const HOUR_MS = 3_600_000;
const headerAt = (ms: number) => new Date(ms).toUTCString();

beforeEach(async () => {
  vi.resetModules();
  ({ clockOffset, learnTime, serverNow } = await import("../src/api/time"));
  vi.useFakeTimers();
  return () => void vi.useRealTimers();
});

test.each([-5, 5])("a clock that is %i hours ahead is corrected to a second", (hours) => {
  vi.setSystemTime(SERVER + hours * HOUR_MS);
  learnTime(headerAt(SERVER), Date.now() - 100);
  expect(Math.abs(serverNow() - SERVER)).toBeLessThan(1_000);
});

test("clocks that agree to a minute are left alone", () => {
  vi.setSystemTime(SERVER + 50_000);
  learnTime(headerAt(SERVER), Date.now() - 100);
  expect(clockOffset.get()).toBe(0);
});

test("an answer that is read late, as after a sleep, says little about the time", () => {
  vi.setSystemTime(SERVER + HOUR_MS);
  learnTime(headerAt(SERVER), SERVER - 100);
  expect(clockOffset.get()).toBe(0);
});

test("a clock that is set right again needs no correction any more", () => {
  vi.setSystemTime(SERVER + HOUR_MS);
  learnTime(headerAt(SERVER), Date.now() - 100);
  vi.advanceTimersByTime(60_000);
  vi.setSystemTime(SERVER);
  learnTime(headerAt(SERVER), Date.now() - 100);
  expect(Math.abs(clockOffset.get())).toBeLessThan(1_000);
});

test("answers of servers whose clocks differ do not move the time back and forth", () => {
  vi.setSystemTime(SERVER);
  learnTime(headerAt(SERVER + HOUR_MS), SERVER - 100);
  const first = clockOffset.get();
  expect(first).toBeGreaterThan(HOUR_MS / 2);
  learnTime(headerAt(SERVER), SERVER - 100);
  learnTime(headerAt(SERVER + HOUR_MS), SERVER - 100);
  expect(clockOffset.get()).toBe(first);
});

test("an answer without a date changes nothing", () => {
  learnTime(null, 0);
  expect(clockOffset.get()).toBe(0);
});
