import { expect, test } from "vitest";
import { groupingOf, sharesOf } from "../src/cluster/holders";
import {
  ailment,
  fragmentOf,
  freedOf,
  isIdle,
  isUnwell,
  linkGroups,
  linksOf,
  nodesOf,
  totalsOf,
} from "../src/cluster/nodes";
import { agent, device, holder, NOW } from "./cluster";

const half = device({ used: "0.50", free: "0.50", holders: [holder()] });

test("a device that several agents share is counted once", () => {
  const cores = device({ id: "cpu0", kind: "cpu", capacity: "1", used: "1", free: "0" });
  const [node, ...others] = nodesOf([agent([half, cores]), agent([half, cores], { id: "agent-2" })], NOW);
  expect(others).toEqual([]);
  expect([node?.agents.length, node?.devices.length, node?.cpu]).toEqual([2, 1, { used: 1, capacity: 1 }]);
});

test("a device is idle if held for a while and not busy, but not without a measurement", () => {
  expect(isIdle(device({ holders: [holder()], utilization_pct: 2 }), NOW)).toBe(true);
  expect(isIdle(device({ holders: [holder()], utilization_pct: 40 }), NOW)).toBe(false);
  expect(isIdle(device({ holders: [holder()], utilization_pct: null }), NOW)).toBe(false);
  expect(isIdle(device({ holders: [], utilization_pct: 0 }), NOW)).toBe(false);
  const fresh = holder({ since: new Date(NOW - 5_000).toISOString() });
  expect(isIdle(device({ holders: [fresh], utilization_pct: 0 }), NOW)).toBe(false);
});

test("only the rest of a held device is a fragment", () => {
  expect([fragmentOf(half), fragmentOf(device()), fragmentOf(device({ used: "1.00", free: "0.00" }))]).toEqual([
    0.5, 0, 0,
  ]);
});

test("a device in foreign use is not free", () => {
  const strange = device({ foreign_usage: true });
  expect([isUnwell(strange), ailment(strange), ailment(device()), ailment(device({ health: "gone" }))]).toEqual([
    true,
    "used by foreign processes",
    "",
    "gone",
  ]);
  expect(totalsOf(nodesOf([agent([strange])], NOW))).toMatchObject({ wholeFree: 0, unwell: 1 });
});

test("a leaving device is no problem and has nothing free", () => {
  const leaving = device({ ...half, health: "leaving" });
  expect([isUnwell(leaving), ailment(leaving), fragmentOf(leaving)]).toEqual([false, "", 0]);
  expect(totalsOf(nodesOf([agent([leaving])], NOW))).toMatchObject({ wholeFree: 0, fragments: 0, unwell: 0 });
  expect(ailment(device({ health: "leaving", foreign_usage: true }))).toBe("used by foreign processes");
  expect(ailment(device({ foreign_usage: true, foreign_users: ["bob", "eve"] }))).toBe(
    "used by foreign processes of bob, eve",
  );
});

test("linked devices are shown as a range or by name", () => {
  const named = (names: string, groups: (number | null)[]) =>
    names.split(" ").map((name, place) => device({ name, link_group: groups[place] ?? null }));
  expect(linkGroups(named("g0 g1 g2 g3", [0, 0, 0, 0]))).toEqual(["g0–g3"]);
  expect(linkGroups(named("g0 g1 g2 g3", [0, 1, 0, 1]))).toEqual(["g0, g2", "g1, g3"]);
  expect(linkGroups(named("g0 g1", [null, 0]))).toEqual([]);
});

test("link groups of different agents are separate even with equal numbers", () => {
  const pair = (...ids: string[]) => ids.map((id) => device({ id, name: id, link_group: 0 }));
  const split = nodesOf([agent(pair("g0", "g1")), agent(pair("g2", "g3"), { id: "agent-2" })], NOW);
  expect(split.map(linksOf)).toEqual([["g0, g1", "g2, g3"]]);
  const sharing = nodesOf([agent(pair("g0", "g1")), agent(pair("g0", "g1"), { id: "agent-2" })], NOW);
  expect(sharing.map(linksOf)).toEqual([["g0, g1"]]);
});

test("the figures of a cluster", () => {
  const nodes = nodesOf(
    [
      agent([half, device({ id: "gpu-1" })]),
      agent([device({ id: "gpu-2", health: "unhealthy" })], { id: "agent-2", node_id: "node-2", state: "lost" }),
    ],
    NOW,
  );
  expect(totalsOf(nodes)).toEqual({
    devices: 3,
    held: 0.5,
    capacity: 3,
    wholeFree: 1,
    booked: 0,
    wholeClosed: 0,
    fragments: 0.5,
    idle: 0,
    unwell: 1,
    agentsAway: 1,
  });
});

test("devices of closed agents are not free unless another agent of the node offers them", () => {
  const closed = { schedulable: false };
  const nodes = (...agents: Parameters<typeof nodesOf>[0]) => totalsOf(nodesOf(agents, NOW));
  const whole = device({ id: "gpu-1" });
  for (const part of [closed, { draining: true }, { state: "suspect" as const }])
    expect(nodes(agent([whole, half], part))).toMatchObject({ wholeFree: 0, wholeClosed: 1 });
  expect(nodes(agent([whole], closed), agent([whole], { id: "agent-2" }))).toMatchObject({
    wholeFree: 1,
    wholeClosed: 0,
  });
  const until = { holders: [holder({ until: new Date(NOW + 60_000).toISOString() })] };
  expect(freedOf(nodesOf([agent([device(until)], { draining: true })], NOW))).toEqual([]);
});

test("amounts by holder, by user if there are several", () => {
  const other = holder({ user: "bob", session_id: "ses_2", lease_id: "lea_2", share: "0.25" });
  const alone = nodesOf([agent([half])], NOW);
  const both = nodesOf([agent([half, device({ id: "gpu-1", holders: [other, holder({ lease_id: "lea_3" })] })])], NOW);
  expect([groupingOf(alone), groupingOf(both)]).toEqual(["session", "user"]);
  const shown = sharesOf(both, { grouping: "user", names: new Map() }).map(({ label, held }) => [label, held]);
  expect(shown).toEqual([
    ["ada", 1],
    ["bob", 0.25],
  ]);
  const named = sharesOf(alone, { grouping: "session", names: new Map([["ses_1", "train"]]) });
  expect(named.map(({ label }) => label)).toEqual(["train"]);
});

test("devices are expected free when their last holder ends, if all ends are known", () => {
  const until = (minutes: number) => holder({ until: new Date(NOW + minutes * 60_000).toISOString() });
  const devices = [
    device({ id: "a", holders: [until(10), until(30)] }),
    device({ id: "b", holders: [until(10)] }),
    device({ id: "c", holders: [until(5), holder({ until: null })] }),
    device({ id: "d" }),
  ];
  const minutes = freedOf(nodesOf([agent(devices)], NOW)).map(({ count, by }) => [
    count,
    Math.round((by - NOW) / 60_000),
  ]);
  expect(minutes).toEqual([
    [1, 10],
    [2, 30],
  ]);
});
