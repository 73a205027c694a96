import { expect, test } from "vitest";
import {
  mayChange,
  mayOperate,
  mayRelease,
  maySubmit,
  operatorsOnly,
  prioritiesOf,
  readsOnly,
} from "../src/identity/rights";

const MINE = { owner: "ada", project: "default", held_by: "ada" };
const THEIRS = { owner: "ben", project: "vision", held_by: "root" };

function as(role: "viewer" | "user" | "operator" | "admin", projects: string[] = []) {
  return { name: "ada", role, projects, priority_max: "normal" as const };
}

test("viewers change nothing, users their own and their projects' sessions, operators all", () => {
  expect([as("viewer"), as("user"), as("operator"), as("admin")].map((me) => mayChange(me, MINE))).toEqual([
    false,
    true,
    true,
    true,
  ]);
  expect(
    [as("viewer", ["vision"]), as("user"), as("user", ["vision"]), as("operator")].map((me) => mayChange(me, THEIRS)),
  ).toEqual([false, false, true, true]);
});

test("a user releases only what they have held themselves", () => {
  expect(mayRelease(as("user"), MINE)).toBe(true);
  expect(mayRelease(as("user", ["vision"]), THEIRS)).toBe(false);
  expect(mayRelease(as("operator"), THEIRS)).toBe(true);
});

test("users can choose priorities up to the policy's maximum, and the session's own", () => {
  expect(prioritiesOf(as("user"), "normal")).toEqual(["low", "normal"]);
  expect(prioritiesOf(as("user"), "critical")).toEqual(["low", "normal", "critical"]);
  expect(prioritiesOf(as("operator"), "low")).toEqual(["low", "normal", "high", "critical"]);
});

test("nothing is permitted until the signed-in user is known", () => {
  expect([mayOperate(null), maySubmit(null), mayChange(null, MINE)]).toEqual([false, false, false]);
});

test("a key whose scope gives the role is named as the reason", () => {
  expect(operatorsOnly({ role: "user", scope: null }, "run Doctor")).toBe(
    "Operators and admins can run Doctor; your role is user.",
  );
  expect(operatorsOnly({ role: "user", scope: "submit" }, "run Doctor")).toBe(
    "Operators and admins can run Doctor; the key that you signed in with has the scope submit, which gives the role user.",
  );
  expect(readsOnly({ role: "viewer", scope: null })).toContain("Ask an admin");
  expect(readsOnly({ role: "viewer", scope: "read" })).toContain("Sign in with a key of the scope submit");
});
