import { expect, test } from "vitest";
import { barsOf, ticksOf, type Holding } from "../src/cluster/bars";
import { chosenIn, chosenNodes, choicesOf, commonModel } from "../src/cluster/choosing";
import { nodesOf } from "../src/cluster/nodes";
import { ofBytes } from "../src/format/amounts";
import { agent, device } from "./cluster";

const at = (hour: number) => `2026-05-02T${String(hour).padStart(2, "0")}:00:00Z`;
const held = (lease_id: string, from: number, to: number | null, amount = "1"): Holding => ({
  device_id: "GPU-1",
  slot: "cuda.shares",
  amount,
  kind: "session",
  lease_id,
  session_id: `ses_${lease_id}`,
  user: "ada",
  since: at(from),
  until: to === null ? null : at(to),
});
const span = { from: Date.parse(at(0)), to: Date.parse(at(10)) };

test("overlapping bars are in separate lanes, cut at the edges of the period", () => {
  const { bars, lanes } = barsOf([held("c", 5, null), held("a", 0, 5), held("b", 4, 6), held("z", 10, 11)], span);
  expect(lanes).toBe(2);
  expect(bars.map(({ holding, left, width, lane }) => [holding.lease_id, left, width, lane])).toEqual([
    ["a", 0, 50, 0],
    ["b", 40, 20, 1],
    ["c", 50, 50, 0],
  ]);
  expect(barsOf([], span)).toEqual({ bars: [], lanes: 1 });
  const half = barsOf([held("a", 0, 10)], { from: Date.parse(at(2)), to: Date.parse(at(4)) });
  expect(half.bars).toMatchObject([{ left: 0, width: 100 }]);
});

test("a lease with several slots of a device is one bar", () => {
  const { bars } = barsOf([held("a", 0, 5, "0.1"), held("a", 0, 5, "0.4")], span);
  expect(bars.map(({ holding }) => holding.amount)).toEqual(["0.4"]);
});

test("times are round and within the period", () => {
  const ticks = ticksOf(span, 8);
  expect(ticks.length).toBeGreaterThan(3);
  expect(ticks.length).toBeLessThanOrEqual(9);
  expect(ticks.every((tick) => tick >= span.from && tick < span.to && tick % 1_800_000 === 0)).toBe(true);
  expect(ticksOf({ from: span.from, to: span.from + 60_000 }, 6).length).toBe(6);
});

test("the address filters the cluster", () => {
  const nodes = nodesOf(
    [
      agent([device({ id: "1", model: "H100" })], { id: "a", node_id: "n1", pool: "big" }),
      agent([device({ id: "2", model: "L4" })], { id: "b", node_id: "n2", pool: "small" }),
    ],
    0,
  );
  const ids = (search: string) =>
    chosenNodes(nodes, chosenIn(new URLSearchParams(search))).flatMap((node) => node.devices.map(({ id }) => id));
  expect([ids(""), ids("pool=big"), ids("model=L4"), ids("node=n2"), ids("user=unknown"), ids("pool=none")]).toEqual([
    ["1", "2"],
    ["1"],
    ["2"],
    ["2"],
    [],
    [],
  ]);
  expect(choicesOf(nodes)).toMatchObject({ pool: ["big", "small"], model: ["H100", "L4"], node: ["n1", "n2"] });
  expect([commonModel(nodes[0]?.devices ?? []), commonModel(nodes.flatMap((node) => node.devices))]).toEqual([
    "H100",
    "",
  ]);
});

test("used memory is in the unit of the total", () => {
  expect([ofBytes(9.4 * 2 ** 30, 80 * 2 ** 30), ofBytes(0, 80 * 2 ** 30), ofBytes(2 ** 20, 512 * 2 ** 20)]).toEqual([
    "9.4/80 GiB",
    "0/80 GiB",
    "1/512 MiB",
  ]);
});
