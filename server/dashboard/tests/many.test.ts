import { afterEach, expect, test, vi } from "vitest";

vi.hoisted(() => {
  const nothing = () => undefined;
  vi.stubGlobal("document", { querySelector: () => null, addEventListener: nothing, visibilityState: "visible" });
});

const change = vi.hoisted(() => vi.fn());
vi.mock("../src/api/client", () => ({
  change,
  Refusal: class extends Error {
    constructor(readonly fault: { readonly kind: string; readonly message: string }) {
      super(fault.message);
    }
  },
}));

import { Refusal } from "../src/api/client";
import { notice } from "../src/parts/notices";
import { cancelAll, prioritise, progress, whenDone } from "../src/session/actions";

const targets = (count: number) => Array.from({ length: count }, (_, at) => ({ id: `ses_n${at}`, name: `job ${at}` }));
const done = (ids: readonly string[], refused: Readonly<Record<string, string>> = {}) => ({
  change_sessions: {
    __typename: "ChangeSessionsSuccess",
    results: ids.map((id) => ({ id, message: refused[id] ?? null })),
  },
});
const refused = (kind: "away" | "refused") => new Refusal({ kind, message: "No.", mayHaveBegun: kind === "away" });
type Asked = { readonly ids: string[] };

afterEach(() => {
  change.mockReset();
});

test("an action on many sessions takes a few requests, and says how far it is and when it is done", async () => {
  const seen: (string | null)[] = [];
  const stop = progress.watch(() => seen.push(progress.get()));
  change.mockImplementation(async (_, { ids }: Asked) => done(ids));
  const action = cancelAll(targets(600));
  await whenDone();
  expect(seen).toEqual(["Canceled: 0 of 600 …", "Canceled: 250 of 600 …", "Canceled: 500 of 600 …", null]);
  expect(await action).toBe(true);
  expect(change.mock.calls.map(([, { ids }]) => (ids as string[]).length)).toEqual([250, 250, 100]);
  expect(notice.get()?.text).toBe("Canceled: 600 sessions.");
  stop();
});

test("a session that has ended stops no others", async () => {
  change.mockImplementation(async (_, { ids }: Asked) =>
    done(ids, { ses_n251: "It has ended.", ses_n252: "So has it." }),
  );
  expect(await prioritise(targets(400), "high")).toBe(false);
  expect(change.mock.calls[0]?.[1]).toMatchObject({ action: "set_priority", priority: "high" });
  expect(notice.get()?.text).toBe("Priority high: 398 of 400. job 251: It has ended. (and 1 more)");
});

test("a refused request stops no others, a server that is away does", async () => {
  change.mockRejectedValueOnce(refused("refused")).mockImplementation(async (_, { ids }: Asked) => done(ids));
  expect(await cancelAll(targets(750))).toBe(false);
  expect(notice.get()?.text).toBe("Canceled: 500 of 750. job 0: No. (and 249 more)");
  change.mockReset();
  change.mockImplementationOnce(async (_, { ids }: Asked) => done(ids)).mockRejectedValue(refused("away"));
  expect(await cancelAll(targets(750))).toBe(false);
  expect(notice.get()?.text).toBe(
    "Canceled: 250 of 750. job 250: No. It is unknown whether the action was carried out. (and 499 more)",
  );
  expect(change).toHaveBeenCalledTimes(2);
});
