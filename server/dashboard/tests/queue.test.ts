import { expect, test } from "vitest";
import { hasAll, matching, NO_FILTERS, reasonsOf, wantedOf } from "../src/queue/filters";
import { merged } from "../src/queue/merging";
import type { Entry, Row } from "../src/queue/loading";
import { expectedStart } from "../src/queue/start";
import { placeOf, searchOf } from "../src/queue/address";
import { gpuHours, gpuUse, nodesOf } from "../src/queue/holding";
import { dropView, saveView, savedViews } from "../src/queue/views";
import { summary } from "../src/session/standing";

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
    tags: [],
    ...part,
  } as Row,
});
const { text: _text, reason: _reason, ...NO_FIELDS } = NO_FILTERS;
const waits = (reason: string) => ({ reason, until: null }) as Row["waits"];
const entries = [entry({}), entry({ id: "ses_2", name: null, owner: "bob", priority: "high", waits: waits("quota") })];

test("every word must match some field", () => {
  const ids = (text: string) => matching(entries, { ...NO_FILTERS, text }).map(({ session }) => session.id);
  expect([ids(""), ids("VISION ada"), ids("bob train"), ids("ses_2")]).toEqual([
    ["ses_1", "ses_2"],
    ["ses_1"],
    [],
    ["ses_2"],
  ]);
});

test("by reason and priority", () => {
  expect(reasonsOf(entries)).toEqual(["quota"]);
  expect(matching(entries, { ...NO_FILTERS, reason: "quota" }).length).toBe(1);
  expect(matching(entries, { ...NO_FILTERS, priority: "high", reason: "fragmented" })).toEqual([]);
});

test("the expected start, if known", () => {
  const until = (at: string | null) => ({ expected_start: at });
  const now = Date.parse("2026-05-02T12:00:00Z");
  expect(expectedStart(until(null), now)).toBe("—");
  expect(expectedStart(until("2026-05-02T12:10:00Z"), now)).toBe("in 10 min");
  expect(expectedStart(until("2026-05-02T11:00:00Z"), now)).toBe("now");
});

test("the server filters by the longest word and the fields", () => {
  expect(wantedOf(NO_FILTERS)).toBeNull();
  expect(wantedOf({ ...NO_FILTERS, reason: "quota", text: "  " })).toBeNull();
  expect(wantedOf({ ...NO_FILTERS, text: " ada vision x" })).toEqual({ ...NO_FIELDS, word: "vision" });
  expect(wantedOf({ ...NO_FILTERS, priority: "high" })).toEqual({ ...NO_FIELDS, word: "", priority: "high" });
  expect(wantedOf({ ...NO_FILTERS, tag: "lr" })).toEqual({ ...NO_FIELDS, word: "", tag: "lr" });
});

test("only an uncut result of the current search is complete", () => {
  const filters = { ...NO_FILTERS, text: "ada vision" };
  const asked = JSON.stringify(wantedOf(filters));
  const all = { total: 0, entries: [], from: 0, next: null };
  const page = { ...all, isFound: true, isCut: false };
  expect(hasAll(page, asked, filters)).toBe(true);
  expect(hasAll(page, asked, { ...filters, text: "ada vision x" })).toBe(true);
  expect(hasAll(page, asked, { ...filters, text: "ada visions" })).toBe(false);
  expect(hasAll({ ...page, isCut: true }, asked, filters)).toBe(false);
  expect(hasAll(all, JSON.stringify(null), NO_FILTERS)).toBe(false);
  const owned = { ...NO_FILTERS, owner: "ada" };
  expect(hasAll(all, JSON.stringify(wantedOf(owned)), owned)).toBe(true);
  expect(hasAll({ ...all, next: "cursor" }, JSON.stringify(wantedOf(owned)), owned)).toBe(false);
});

test("merged results have each session once, in queue order, then newest first", () => {
  const found = (hasNextPage: boolean, ...rows: readonly [string, number | null][]) => ({
    edges: rows.map(([id, queue_position]) => ({ node: { id, queue_position } as Row })),
    pageInfo: { hasNextPage },
  });
  const page = merged([found(false, ["a", 7], ["b", null], ["c", 2]), found(true, ["a", 7], ["d", null])]);
  expect(page.entries.map(({ session }) => session.id)).toEqual(["c", "a", "d", "b"]);
  expect([page.total, page.isCut, merged([found(false)]).isCut]).toEqual([4, true, false]);
});

test("the address and the filters convert both ways", () => {
  for (const search of [
    "",
    "state=running",
    "state=ended",
    "state=failed&array=ses_1",
    "state=held",
    "state=ended&q=a+b%26c&owner=ada&project=vision&tag=lr%3D0.1&priority=high&sort=gpus_desc",
    "reason=quota",
  ])
    expect(searchOf(placeOf(new URLSearchParams(search)))).toBe(search);
  const place = placeOf(new URLSearchParams("state=no&sort=evil&owner="));
  expect(place).toEqual({ view: "waiting", state: "any", filters: NO_FILTERS, sort: "" });
  expect(placeOf(new URLSearchParams("state=failed"))).toMatchObject({ view: "ended", state: "failed" });
  expect(placeOf(new URLSearchParams("state=running"))).toMatchObject({ view: "active", state: "any" });
});

test("a tag matches by name, by name and value, and by words", () => {
  const tagged = [entry({ tags: [{ name: "lr", value: "0.1" }] }), entry({ id: "ses_2" })];
  const count = (part: object) => matching(tagged, { ...NO_FILTERS, ...part }).length;
  expect([{ tag: "lr" }, { tag: "lr=0.1" }, { tag: "lr=0" }, { text: "LR=0" }, { tag: "" }].map(count)).toEqual([
    1, 1, 0, 1, 2,
  ]);
});

test("sorted search results", () => {
  const row = (id: string, ended_at: string | null, requested_gpus: number) =>
    ({ node: { id, ended_at, requested_gpus, queue_position: null } as Row }) as const;
  const edges = [row("ses_1", "2026-05-02", 1), row("ses_2", null, 4), row("ses_3", "2026-05-03", 1)];
  const found = [{ edges, pageInfo: { hasNextPage: false } }];
  const ids = (sort: "ended_desc" | "ended_asc" | "gpus_asc" | "oldest") =>
    merged(found, sort)
      .entries.map(({ session }) => session.id.slice(-1))
      .join("");
  expect([ids("ended_desc"), ids("ended_asc"), ids("gpus_asc"), ids("oldest")]).toEqual(["312", "132", "132", "123"]);
});

test("GPU-hours, use and nodes of a session", () => {
  const gpu = (share: number, utilization_pct: number | null, node_id = "a") => ({
    gpu_id: "",
    node_id,
    share,
    utilization_pct,
  });
  const session = {
    allocated_gpus: [gpu(1, 80), gpu(0.5, 20, "b"), gpu(0.5, null, "b")],
    scheduled_at: "2026-05-02T12:00:00Z",
    ended_at: null,
    kernels: [{ agent_id: "agent-c" }, { agent_id: "agent-d" }],
  };
  const now = Date.parse("2026-05-02T13:30:00Z");
  expect([gpuHours(session, now), gpuUse(session), nodesOf(session, new Map())]).toEqual([3, 50, ["a", "b"]]);
  expect(gpuHours({ ...session, ended_at: "2026-05-02T12:30:00Z" }, now)).toBe(1);
  expect([gpuHours({ ...session, allocated_gpus: [] }, now), gpuUse({ allocated_gpus: [] })]).toEqual([null, null]);
  expect(nodesOf({ ...session, allocated_gpus: [] }, new Map([["agent-c", "c"]]))).toEqual(["c", "agent-d"]);
});

test("one outcome for a bulk action", () => {
  expect(summary("Held", 1, [])).toBe("Held: 1 session.");
  expect(summary("Held", 3, [])).toBe("Held: 3 sessions.");
  expect(summary("Held", 3, ["a: it runs", "b: it ended"])).toBe("Held: 1 of 3. a: it runs (and 1 more)");
});

test("a saved view is replaced by one of the same name and can be deleted", () => {
  saveView({ name: " mine ", search: "owner=ada" });
  saveView({ name: "", search: "nothing" });
  saveView({ name: "mine", search: "owner=bob" });
  expect(savedViews.get()).toEqual([{ name: "mine", search: "owner=bob" }]);
  dropView("mine");
  expect(savedViews.get()).toEqual([]);
});
