import { expect, test } from "vitest";
import { hasAll, matching, NO_FILTERS, reasonsOf, wantedOf } from "../src/queue/filters";
import { merged } from "../src/queue/merging";
import type { Entry, Row } from "../src/queue/loading";
import { expectedStart } from "../src/queue/start";

const entry = (part: Partial<Row>): Entry => ({
  position: 1,
  session: {
    id: "ses_1",
    name: "train",
    owner: "ada",
    project: "vision",
    pool: "default",
    priority: "normal",
    waits: null,
    ...part,
  } as Row,
});
const waits = (reason: string) => ({ reason, until: null }) as Row["waits"];
const entries = [entry({}), entry({ id: "ses_2", name: null, owner: "bob", priority: "high", waits: waits("quota") })];

test("every word must be found somewhere", () => {
  const ids = (text: string) => matching(entries, { ...NO_FILTERS, text }).map(({ session }) => session.id);
  expect([ids(""), ids("VISION ada"), ids("bob train"), ids("ses_2")]).toEqual([
    ["ses_1", "ses_2"],
    ["ses_1"],
    [],
    ["ses_2"],
  ]);
});

test("by reason and by priority", () => {
  expect(reasonsOf(entries)).toEqual(["quota"]);
  expect(matching(entries, { ...NO_FILTERS, reason: "quota" }).length).toBe(1);
  expect(matching(entries, { ...NO_FILTERS, priority: "high", reason: "fragmented" })).toEqual([]);
});

test("the expected start, where one is known", () => {
  const until = (at: string | null) => ({ expected_start: at });
  const now = Date.parse("2026-05-02T12:00:00Z");
  expect(expectedStart(until(null), now)).toBe("—");
  expect(expectedStart(until("2026-05-02T12:10:00Z"), now)).toBe("in 10 min");
  expect(expectedStart(until("2026-05-02T11:00:00Z"), now)).toBe("now");
});

test("the server is asked for the longest word and the priority", () => {
  expect(wantedOf(NO_FILTERS)).toBeNull();
  expect(wantedOf({ ...NO_FILTERS, reason: "quota", text: "  " })).toBeNull();
  expect(wantedOf({ ...NO_FILTERS, text: " ada vision x" })).toEqual({ word: "vision", priority: "any" });
  expect(wantedOf({ ...NO_FILTERS, priority: "high" })).toEqual({ word: "", priority: "high" });
});

test("only an uncut answer to what is looked for now has all there is", () => {
  const filters = { ...NO_FILTERS, text: "ada vision" };
  const asked = JSON.stringify(wantedOf(filters));
  const page = { total: 0, entries: [], isFound: true, isCut: false };
  expect(hasAll(page, asked, filters)).toBe(true);
  expect(hasAll(page, asked, { ...filters, text: "ada vision x" })).toBe(true);
  expect(hasAll(page, asked, { ...filters, text: "ada visions" })).toBe(false);
  expect(hasAll({ ...page, isCut: true }, asked, filters)).toBe(false);
  expect(hasAll({ total: 0, entries: [] }, JSON.stringify(null), NO_FILTERS)).toBe(false);
});

test("what was found in several ways stands there once, in the order of the queue, else the newest first", () => {
  const found = (hasNextPage: boolean, ...rows: readonly [string, number | null][]) => ({
    edges: rows.map(([id, queue_position]) => ({ node: { id, queue_position } as Row })),
    pageInfo: { hasNextPage },
  });
  const page = merged([found(false, ["a", 7], ["b", null], ["c", 2]), found(true, ["a", 7], ["d", null])]);
  expect(page.entries.map(({ session }) => session.id)).toEqual(["c", "a", "d", "b"]);
  expect([page.total, page.isCut, merged([found(false)]).isCut]).toEqual([4, true, false]);
});
