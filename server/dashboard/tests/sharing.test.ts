import { expect, test } from "vitest";
import { shared } from "../src/api/sharing";

const old = {
  nodes: [
    { id: 1, at: { x: 1 } },
    { id: 2, at: { x: 2 } },
  ],
  total: 2,
};

test("an equal value stays the same object", () => {
  expect(shared(old, structuredClone(old))).toBe(old);
});

test("only the path to a change is new", () => {
  const next = shared(old, {
    nodes: [
      { id: 1, at: { x: 1 } },
      { id: 2, at: { x: 3 } },
    ],
    total: 2,
  });
  expect(next).toEqual({
    nodes: [
      { id: 1, at: { x: 1 } },
      { id: 2, at: { x: 3 } },
    ],
    total: 2,
  });
  expect([next.nodes[0] === old.nodes[0], next.nodes[1] === old.nodes[1]]).toEqual([true, false]);
});

test("values of another length or type are not shared", () => {
  expect(shared([1, 2], [1])).toEqual([1]);
  expect(shared([1], [1, 2])).toEqual([1, 2]);
  expect(shared({ a: 1, b: 2 }, { a: 1 })).toEqual({ a: 1 });
  expect(shared({ a: [] }, { a: null })).toEqual({ a: null });
  expect(shared(null, { a: 1 })).toEqual({ a: 1 });
});
