import { expect, test } from "vitest";
import { agentsOf, boardAfter, type Board } from "../src/cluster/board";
import type { DevicesSubscription } from "../src/generated/graphql";
import { agent, device } from "./cluster";

type Update = DevicesSubscription["device_updates"];
type Change = Update["agents"][number];

const NOTHING: Board = new Map();
const update = (agents: readonly Change[], part: Partial<Update> = {}): Update => ({
  number: 1,
  is_snapshot: false,
  agents_gone: [],
  agents,
  ...part,
});
const change = (agent_id: string, devices: Change["devices"], devices_gone: readonly string[] = []): Change => ({
  agent_id,
  devices,
  devices_gone,
});
const idsOf = (board: Board) => [...board].map(([id, devices]) => [id, devices.map((one) => one.id)]);

const [first, second, tenth] = ["cuda0", "cuda1", "cuda10"].map((name) => device({ id: `gpu-${name}`, name }));
if (!first || !second || !tenth) throw new Error("three devices");
const start = boardAfter(
  NOTHING,
  update([change("a", [first, second]), change("b", [device({ id: "b0" })])], { is_snapshot: true }),
);

test("a changed device is replaced, and everything else stays the same object", () => {
  const busy = { ...second, utilization_pct: 99 };
  const next = boardAfter(start, update([change("a", [busy])]));
  expect(next.get("a")).toEqual([first, busy]);
  expect([next.get("a")?.[0] === first, next.get("b") === start.get("b")]).toEqual([true, true]);
});

test("removed devices and agents are dropped; a returning agent has only its new devices", () => {
  const less = boardAfter(start, update([change("a", [], ["gpu-cuda0"])], { agents_gone: ["b"] }));
  expect(idsOf(less)).toEqual([["a", ["gpu-cuda1"]]]);
  const back = boardAfter(start, update([change("b", [device({ id: "b1" })])], { agents_gone: ["b"] }));
  expect(back.get("b")?.map((one) => one.id)).toEqual(["b1"]);
});

test("a new device is sorted by its number", () => {
  const more = boardAfter(start, update([change("a", [tenth, device({ id: "new", name: "cuda2" })])]));
  expect(more.get("a")?.map((one) => one.name)).toEqual(["cuda0", "cuda1", "cuda2", "cuda10"]);
});

test("a snapshot replaces all; equal parts keep their identity", () => {
  const again = boardAfter(start, update([change("a", structuredClone([first, second]))], { is_snapshot: true }));
  expect(idsOf(again)).toEqual([["a", ["gpu-cuda0", "gpu-cuda1"]]]);
  expect(again.get("a")).toBe(start.get("a"));
});

test("devices come from updates, or from the query without any", () => {
  const { devices: _, ...bare } = agent([], { id: "a" });
  const asked = { ...bare, devices: [tenth] };
  expect(agentsOf([bare], start, true)[0]?.devices).toEqual([first, second]);
  expect(agentsOf([bare], start, false)[0]?.devices).toEqual([first, second]);
  expect(agentsOf([asked], start, true)[0]?.devices).toEqual([first, second]);
  expect(agentsOf([asked], start, false)[0]?.devices).toEqual([tenth]);
  expect(agentsOf([bare], NOTHING, true)[0]?.devices).toEqual([]);
});
