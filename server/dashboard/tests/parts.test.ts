import { beforeEach, expect, test, vi } from "vitest";

vi.hoisted(() => {
  const nothing = () => undefined;
  vi.stubGlobal("document", { querySelector: () => null, addEventListener: nothing, visibilityState: "visible" });
});

const ask = vi.hoisted(() => vi.fn());
vi.mock("../src/api/client", () => ({
  ask,
  change: vi.fn(),
  Refusal: class extends Error {
    constructor(readonly fault: { readonly kind: string; readonly message: string }) {
      super(fault.message);
    }
  },
}));
vi.mock("../src/session/names", () => ({ learnNames: async () => undefined, nameOf: () => "" }));

import { Refusal } from "../src/api/client";
import { filterSessions } from "../src/queue/finding";
import { loadQueue, loadSessions, PAGE_ROWS, type Row } from "../src/queue/loading";
import { countOf } from "../src/queue/parts";

const TOTAL = 450;

/** A list of `TOTAL` sessions; a cursor is the number of rows before. */
beforeEach(() => {
  ask.mockReset().mockImplementation(async (_, { first, after }: { first: number; after: string | null }) => {
    if (after === "gone") throw new Refusal({ kind: "refused", message: "no longer in the list", mayHaveBegun: false });
    const start = Number(after ?? 0);
    const end = Math.min(start + first, TOTAL);
    const rows = Array.from({ length: end - start }, (_, at) => ({
      id: `ses_${start + at}`,
      queue_position: start + at + 1,
    }));
    const pageInfo = { hasNextPage: end < TOTAL, endCursor: String(end) };
    return {
      sessions: { edges: rows.map((node) => ({ node: node as Row })), total_count: TOTAL, pageInfo },
      queue: { edges: rows.map((session) => ({ node: { session } })), total_count: TOTAL, pageInfo },
      pools: [],
    };
  });
});

test("a part begins at its cursor, and says where the next one begins", async () => {
  const first = await loadSessions({}, { rows: 2 * PAGE_ROWS, after: null, skipped: 0 }, "newest");
  expect([first.entries.length, first.from, first.next, first.total]).toEqual([200, 0, "200", TOTAL]);
  expect(countOf(first, 200)).toBe("200 of 450");
  const second = await loadSessions({}, { rows: 1000, after: "200", skipped: 200 }, "newest");
  expect([second.entries.length, second.from, second.next]).toEqual([250, 200, null]);
  expect(countOf(second, 250)).toBe("201 to 450 of 450");
  expect(countOf(second, 3)).toBe("3 among 201 to 450 of 450");
  expect(ask).toHaveBeenCalledTimes(2 + 3);
});

test("the queue counts the rows before a part by their places, as sessions before it start", async () => {
  const part = await loadQueue({ rows: PAGE_ROWS, after: "200", skipped: 350 });
  expect(part.from).toBe(200);
});

test("a part whose sessions have all left the table is the first one", async () => {
  const part = await loadQueue({ rows: PAGE_ROWS, after: "gone", skipped: 300 });
  expect([part.from, part.entries[0]?.session.id]).toEqual([0, "ses_0"]);
});

test("sessions of one owner are loaded in parts too, and are as many as there are", async () => {
  const wanted = { word: "", owner: "ada", project: "", tag: "", array: "", priority: "any" };
  const page = await filterSessions(["queued"], wanted, "", { rows: 300, after: null, skipped: 0 });
  expect(ask.mock.calls[0]?.[1]).toMatchObject({ filter: { owners: ["ada"] }, order: "oldest" });
  expect(countOf(page, page.entries.length)).toBe("300 of 450");
});
