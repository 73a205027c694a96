import { expect, test } from "vitest";
import * as rules from "../src/admin/alerts/draft";
import { nodesOf } from "../src/cluster/nodes";
import { problemsOf } from "../src/cluster/problems";
import { agent, device, holder, NOW } from "./cluster";

const alert = (part: object) => ({
  id: "alr_1",
  rule: "agent_lost" as const,
  state: "open" as const,
  severity: "critical" as const,
  subject: "agent-1",
  message: "Agent agent-1 was lost.",
  opened_at: "2026-05-02T11:59:00Z",
  closed_at: null,
  ...part,
});

test("the worst problem is first, and one with an open alert is listed once", () => {
  const sick = device({ id: "gpu-1", name: "cuda1", health: "unhealthy" });
  const lazy = device({ id: "gpu-2", name: "cuda2", holders: [holder()], utilization_pct: 0 });
  const lost = agent([], { id: "agent-2", node_id: "node-2", state: "lost" });
  const nodes = nodesOf([agent([sick, lazy], { draining: true }), lost], NOW);
  expect(problemsOf(nodes, []).map(({ tone, text }) => [tone, text])).toEqual([
    ["bad", "Agent agent-2 is lost."],
    ["warn", "Agent agent-1 is draining."],
    ["warn", "cuda1 on host-1 is unhealthy."],
    ["warn", "1 held and idle:"],
  ]);
  const alerts = [
    alert({ id: "a", severity: "info", subject: "leader" }),
    alert({ id: "b", subject: "agent-2" }),
    alert({ id: "c", severity: "warning", subject: "agent-1/gpu-1", rule: "device_unhealthy" }),
  ];
  expect(problemsOf(nodes, alerts).map(({ key }) => key)).toEqual([
    "b",
    "c",
    "Agent agent-1 is draining.",
    "idle",
    "a",
  ]);
});

test("idle devices are listed by the users who hold them", () => {
  const idle = (id: string, ...users: string[]) =>
    device({ id, utilization_pct: 0, holders: users.map((user) => holder({ user })) });
  const nodes = nodesOf([agent([idle("0", "ben"), idle("1", "anna", "anna"), idle("2", "anna", "ben", "eve")])], NOW);
  expect(problemsOf(nodes, [])[0]).toMatchObject({
    text: "3 held and idle:",
    owners: [
      { name: "anna", count: 2 },
      { name: "ben", count: 2 },
      { name: "eve", count: 1 },
    ],
  });
});

test("an alert hides only the problem it is about", () => {
  const sick = device({ id: "gpu-1", name: "cuda1", health: "unhealthy", foreign_usage: true });
  const twin = device({ id: "gpu-2", name: "cuda1", health: "unhealthy" });
  const nodes = nodesOf(
    [agent([sick], { state: "suspect" }), agent([twin], { id: "agent-2", node_id: "node-2" })],
    NOW,
  );
  const alerts = [
    alert({ id: "a", rule: "disk_low", subject: "agent-1" }),
    alert({ id: "b", rule: "external_process", subject: "agent-1/gpu-1" }),
  ];
  const lines = problemsOf(nodes, alerts);
  expect(lines.slice(2).map(({ text }) => text)).toEqual([
    "Agent agent-1 is suspect.",
    "cuda1 on host-1 is unhealthy.",
    "cuda1 on host-1 is unhealthy.",
  ]);
  expect(new Set(lines.map(({ key }) => key)).size).toBe(lines.length);
});

const RULE: rules.Rule = {
  rule: "long_wait",
  description: "A session waits longer than the threshold.",
  version: 3,
  is_on: true,
  threshold: 86_400,
  unit: "seconds",
  floor: 0,
  for_s: 600,
  severity: "warning",
  muted_until: null,
};

test("a typed rule becomes API input", () => {
  const draft = rules.draftOf(RULE);
  expect(rules.wrongsOf(RULE, draft)).toEqual({});
  expect(rules.thresholdOf(RULE)).toBe("1 d");
  expect(rules.inputOf(RULE, { ...draft, threshold: "2h", holds: "1m", isOn: false })).toEqual({
    rule: "long_wait",
    is_on: false,
    threshold: 7_200,
    for_s: 60,
    severity: "warning",
    expected_version: 3,
  });
  expect(Object.keys(rules.wrongsOf(RULE, { ...draft, threshold: "soon", holds: "" }))).toEqual(["threshold", "holds"]);
});

test("a rate has a floor, and is at most 100 percent", () => {
  const rate: rules.Rule = { ...RULE, rule: "failure_rate", unit: "percent", threshold: 50, floor: 20 };
  const draft = rules.draftOf(rate);
  expect(rules.inputOf(rate, draft)).toMatchObject({ threshold: 50, floor: 20 });
  expect(Object.keys(rules.wrongsOf(rate, { ...draft, threshold: "101", floor: "-1" }))).toEqual([
    "threshold",
    "floor",
  ]);
  const plain: rules.Rule = { ...RULE, rule: "agent_lost", unit: "", threshold: 0 };
  expect(rules.inputOf(plain, rules.draftOf(plain))).not.toHaveProperty("threshold");
  expect(rules.thresholdOf(plain)).toBe("");
});
