import { expect, test } from "vitest";
import { likelyStart, startSentence, toldSentence, trustSentence, type Forecast } from "../src/queue/forecast";
import { clockTime } from "../src/format/times";

const now = new Date(2026, 4, 2, 12, 0).getTime();
const at = (minutes: number) => new Date(now + minutes * 60_000).toISOString();
const band = (p10: number, p50: number, p90: number) => ({ p10: at(p10), p50: at(p50), p90: at(p90) });
const told = (start: ReturnType<typeof band> | null, more: object = {}) => ({
  age: 90,
  starts_now: false,
  start,
  unknown: null,
  basis: "simulation",
  ...more,
});
const forecast = (newest: Forecast["now"], more: Partial<Forecast> = {}): Forecast => ({
  now: newest,
  alike: null,
  alike_inside: null,
  missing: null,
  ...more,
});

test("a time is shown to the minute, with the date if it is another day", () => {
  expect(clockTime(at(220), now)).toBe("15:40");
  expect(clockTime(at(24 * 60), now)).toMatch(/May.* 12:00$|^May/);
});

test("the likely start in a column, and the band as a sentence", () => {
  const known = forecast(told(band(185, 220, 320)));
  expect(likelyStart(known, now)).toBe("about 15:40");
  expect(startSentence(known, now)).toBe("Starts about 15:40, between 15:05 and 17:20.");
  expect(startSentence(forecast(told(band(-1, 20, 40))), now)).toBe("Starts about 12:20, between now and 12:40.");
  expect(likelyStart(forecast(told(band(0, 0, 0.4))), now)).toBe("within a minute");
});

test("an unknown start is stated with its reason", () => {
  expect(likelyStart(null, now)).toBe("—");
  expect(startSentence(null, now)).toBe("No forecast: none has been made yet.");
  expect(startSentence(forecast(null, { missing: "it is held" }), now)).toBe("No forecast: it is held.");
  const unknown = forecast(told(null, { unknown: "3 sessions have ended so far" }));
  expect([likelyStart(unknown, now), startSentence(unknown, now)]).toEqual([
    "—",
    "The start cannot be forecast: 3 sessions have ended so far.",
  ]);
  expect(likelyStart(forecast(told(null, { starts_now: true })), now)).toBe("now");
});

test("how reliable a forecast is", () => {
  expect(trustSentence(forecast(told(band(1, 2, 3)), { alike: 214, alike_inside: 0.812 }))).toBe(
    "Of 214 like this, 81 % started inside the band.",
  );
  expect(trustSentence(forecast(told(band(1, 2, 3)), { missing: "the forecast process is starting" }))).toBe(
    "Made 1 min 30 s ago: the forecast process is starting.",
  );
  expect(trustSentence(forecast(told(band(1, 2, 3), { basis: "recent waits" })))).toMatch(/^Recent waits are shown/);
  expect(trustSentence(forecast(told(null)))).toBe("");
});

test("the forecast at submission, and whether it came true", () => {
  const first = told(band(10, 20, 40));
  expect(toldSentence({ at_submission: first, came_true: true }, now)).toBe(
    "about 12:20, between 12:10 and 12:40; it started inside this band",
  );
  expect(toldSentence({ at_submission: first, came_true: null }, now)).toBe("about 12:20, between 12:10 and 12:40");
  expect(toldSentence({ at_submission: told(null), came_true: null }, now)).toBeNull();
  expect(toldSentence(null, now)).toBeNull();
});
