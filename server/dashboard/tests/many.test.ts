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

const TARGETS = ["a", "b", "c", "d"].map((name) => ({ id: `ses_${name}`, name, version: 1 }));
const done = { cancel_session: { __typename: "CancelSessionSuccess" } };
const refused = (kind: "away" | "refused") => new Refusal({ kind, message: "No.", mayHaveBegun: false });

afterEach(() => {
  change.mockReset();
});

test("an action on many sessions says how far it is, and when it is done", async () => {
  const seen: (string | null)[] = [];
  const stop = progress.watch(() => seen.push(progress.get()));
  change.mockResolvedValue(done);
  const action = cancelAll(TARGETS.slice(0, 2));
  await whenDone();
  expect(seen).toEqual(["Canceled: 0 of 2 …", "Canceled: 1 of 2 …", null]);
  expect(await action).toBe(true);
  stop();
});

test("a refusal stops no others, a server that is away does", async () => {
  change.mockResolvedValueOnce(done).mockRejectedValueOnce(refused("refused")).mockResolvedValue(done);
  expect(await cancelAll(TARGETS)).toBe(false);
  expect(notice.get()?.text).toBe("Canceled: 3 of 4. b: No.");
  change.mockReset();
  change.mockResolvedValueOnce(done).mockRejectedValue(refused("away"));
  expect(await cancelAll(TARGETS)).toBe(false);
  expect(notice.get()?.text).toBe("Canceled: 1 of 4. b: No. (and 2 more)");
  expect(change).toHaveBeenCalledTimes(2);
});

const MANY = Array.from({ length: 1250 }, (_, at) => ({ id: `ses_n${at}`, name: `job ${at}`, version: 1 }));
const together = { update_session_priorities: { __typename: "UpdateSessionPrioritiesSuccess" } };
const single = { update_session_priority: { __typename: "UpdateSessionPrioritySuccess" } };

test("many sessions get a priority by a few requests", async () => {
  change.mockResolvedValue(together);
  expect(await prioritise(MANY, "high")).toBe(true);
  expect(change.mock.calls.map(([, { ids }]) => (ids as string[]).length)).toEqual([500, 500, 250]);
  expect(notice.get()?.text).toBe("Priority high: 1250 sessions.");
});

test("a request that is refused for one of its sessions is made for each of them", async () => {
  const ended = { __typename: "StateConflict", message: "It has ended." };
  change.mockImplementation(async (_, { id, ids }: { id?: string; ids?: string[] }) => {
    if (ids) return ids.includes("ses_n501") ? { update_session_priorities: ended } : together;
    return id === "ses_n501" ? { update_session_priority: ended } : single;
  });
  expect(await prioritise(MANY, "high")).toBe(false);
  expect(change).toHaveBeenCalledTimes(3 + 500);
  expect(notice.get()?.text).toBe("Priority high: 1249 of 1250. job 501: It has ended.");
});
