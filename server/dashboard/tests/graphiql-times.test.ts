import { afterEach, expect, test, vi } from "vitest";
import { ask } from "../src/graphiql/asking";
import { filled } from "../src/graphiql/filling";

const SERVER = Date.parse("2027-05-01T12:00:00Z");
const HOUR_MS = 3_600_000;

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("the times of an example are by the server's clock, however wrong that of this computer is", async () => {
  vi.useFakeTimers({ now: SERVER - 5 * HOUR_MS });
  const headers = { date: new Date(SERVER).toUTCString() };
  vi.stubGlobal("fetch", async () => Response.json({ data: {} }, { headers }));
  const { now, since } = JSON.parse(await filled(`{ "now": "<now>", "since": "<an hour ago>" }`, "vera", ask)) as {
    readonly now: string;
    readonly since: string;
  };
  expect(Math.abs(Date.parse(now) - SERVER)).toBeLessThan(2_000);
  expect(Date.parse(now) - Date.parse(since)).toBe(HOUR_MS);
});
