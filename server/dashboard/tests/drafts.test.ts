import { afterEach, expect, test, vi } from "vitest";
import { storeDraft, storedDraft } from "../src/parts/drafts";

afterEach(() => {
  vi.unstubAllGlobals();
});

function fakeStorage(): Map<string, string> {
  const values = new Map<string, string>();
  vi.stubGlobal("sessionStorage", {
    getItem: (key: string) => values.get(key) ?? null,
    setItem: (key: string, value: string) => values.set(key, value),
    removeItem: (key: string) => values.delete(key),
  });
  return values;
}

test("each form has its own draft until it is removed", () => {
  const values = fakeStorage();
  expect(storedDraft("submit/ada")).toBeNull();
  storeDraft("submit/ada", { command: "true" });
  expect(storedDraft("submit/ada")).toEqual({ command: "true" });
  expect(storedDraft("submit/vera")).toBeNull();
  expect(storedDraft("policy/ada")).toBeNull();
  storeDraft("submit/ada", null);
  expect(storedDraft("submit/ada")).toBeNull();
  expect(values.size).toBe(0);
});

test("an unreadable draft is ignored", () => {
  const values = fakeStorage();
  storeDraft("submit/ada", {});
  for (const key of values.keys()) values.set(key, "{");
  expect(storedDraft("submit/ada")).toBeNull();
});

test("without storage nothing is kept and nothing fails", () => {
  const refuse = () => {
    throw new Error("denied");
  };
  vi.stubGlobal("sessionStorage", { getItem: refuse, setItem: refuse, removeItem: refuse });
  storeDraft("submit/ada", {});
  storeDraft("submit/ada", null);
  expect(storedDraft("submit/ada")).toBeNull();
});
