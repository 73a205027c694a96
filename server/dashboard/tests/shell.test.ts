import { expect, test } from "vitest";
import type { Event } from "../src/api/feed";
import { matchingEntries, pageEntries, sessionEntries, shortcutOf } from "../src/shell/entries";
import { toldOf } from "../src/shell/notifications";

const event = (kind: string, part: object = {}) =>
  ({
    kind,
    session: { id: "ses_1abcdef", name: "train", owner: "ada", project: "lab", array_id: null, failure: null, ...part },
  }) as unknown as Event;
const ON = { isOn: true, watched: [] };

test("a notification is shown for the user's own sessions if they asked for it", () => {
  expect(toldOf(event("session.running"), ON, "ada")).toEqual({ title: "train started", body: "ada, lab" });
  expect(toldOf(event("session.failed", { failure: { message: "exit code 3" } }), ON, "ada")).toEqual({
    title: "train failed",
    body: "exit code 3",
  });
  expect(toldOf(event("session.running"), ON, "bob")).toBeNull();
  expect(toldOf(event("session.running"), { isOn: false, watched: [] }, "ada")).toBeNull();
  expect(toldOf(event("session.queued"), ON, "ada")).toBeNull();
  expect(toldOf(event("session.completed", { array_id: "ses_0" }), ON, "ada")).toBeNull();
});

test("a notification is shown for a single session of any owner", () => {
  const watching = { isOn: false, watched: ["ses_1abcdef"] };
  expect(toldOf(event("session.completed", { name: null }), watching, "bob")?.title).toBe("…abcdef completed");
});

test("every word must match; prefix matches come first", () => {
  const entries = [
    { kind: "node", text: "rack-train", path: "/" },
    { kind: "session, running, ada", text: "train-1", path: "/", id: "ses_77" },
  ];
  const texts = (text: string) => matchingEntries(entries, text).map((entry) => entry.text);
  expect([texts("train"), texts("train ada"), texts("ses_77"), texts("x"), texts("")]).toEqual([
    ["train-1", "rack-train"],
    ["train-1"],
    ["train-1"],
    [],
    ["rack-train", "train-1"],
  ]);
});

test("one- and two-key shortcuts", () => {
  expect([
    shortcutOf("/", ""),
    shortcutOf("?", ""),
    shortcutOf("q", "g"),
    shortcutOf("q", ""),
    shortcutOf("/", "g"),
  ]).toEqual(["search", "help", { path: "/sessions" }, null, null]);
});

test("viewers have no submit page", () => {
  const paths = (role: string) =>
    pageEntries({ name: "v", role, projects: [], key_id: null, priority_max: "normal" } as never).map(
      (one) => one.path,
    );
  expect(paths("viewer")).not.toContain("/submit");
  expect(paths("user")).toContain("/submit");
});

test("the array of found tasks is an entry before them, once", () => {
  const task = (id: string) => ({ id, name: "sweep", owner: "ada", state: "failed" });
  const texts = (...ids: string[]) => sessionEntries(ids.map(task)).map(({ text, kind }) => `${text}: ${kind}`);
  expect(texts("ses_a_9", "ses_a_8")).toEqual([
    "sweep: job array, ada",
    "sweep_9: session, failed, ada",
    "sweep_8: session, failed, ada",
  ]);
  expect(texts("ses_a_9", "ses_a")).toEqual(["sweep_9: session, failed, ada", "sweep: session, failed, ada"]);
});

test("each tab of the page Admin is an entry", () => {
  const texts = pageEntries(null).map(({ text }) => text);
  expect(texts).toEqual(expect.arrayContaining(["Admin: policy", "Admin: backtest", "Admin: audit"]));
});
