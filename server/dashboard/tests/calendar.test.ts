import { expect, test } from "vitest";
import { bookedAtMost, effectText, endOf, entriesOf, type Booking, type Running } from "../src/calendar/entries";

const HOUR = 3_600_000;
const at = (hours: number) => new Date(hours * HOUR).toISOString();

function booking(name: string, from: number, to: number, gpus: number): Booking {
  return {
    id: name,
    name,
    kind: "use",
    owner: "bob",
    project: "default",
    state: "booked",
    starts_at: at(from),
    ends_at: at(to),
    gpus,
    devices: [{ hostname: "n1", name: "cuda0" }],
    nodes: [],
    is_active: false,
    series: null,
  };
}

function session(more: Partial<Running>): Running {
  return {
    id: "s",
    name: null,
    owner: "ann",
    started_at: at(1),
    time_limit: null,
    requested_gpus: 1,
    kernels: [{ agent_id: "a1" }],
    forecast: null,
    ...more,
  };
}

test("the peak of booked GPUs counts, not the sum over the window", () => {
  const bookings = [booking("p", 1, 2, 2), booking("q", 2, 3, 3)];
  expect(bookedAtMost(bookings, 0, 4 * HOUR)).toBe(3);
  expect(bookedAtMost([], 0, 4 * HOUR)).toBe(0);
});

test("a refused booking names the fields as the form does", () => {
  const refused = { refusal: "starts_at: it is in the past", delayed_count: 0, delay_max: null };
  expect(effectText(refused as unknown as Parameters<typeof effectText>[0])).toBe(
    "It would be refused. From: it is in the past.",
  );
});

test("a running session ends by its forecast, else by its limit, else at the window's end", () => {
  expect(endOf(session({ time_limit: 7200 }))).toBe(3 * HOUR);
  expect(endOf(session({ time_limit: 7200, forecast: { now: { end: { p50: at(2) } } } }))).toBe(2 * HOUR);
  const found = { bookings: [booking("p", 5, 6, 1)], running: [session({})] };
  const entries = entriesOf(found, 9 * HOUR, 4 * HOUR, new Map([["a1", "n1"]]));
  expect(entries.map((one) => [one.title, one.toMs / HOUR, one.hasEnd, one.nodes])).toEqual([
    ["p", 6, true, ["n1"]],
    ["session runs, end unknown", 9, false, ["n1"]],
  ]);
});
