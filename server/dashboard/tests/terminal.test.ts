import { expect, test } from "vitest";
import { mayOpen } from "../src/identity/rights";
import { frame, Frames } from "../src/terminal/frames";

test("frames are cut out of a stream, however its pieces are divided", () => {
  const text = new TextEncoder();
  const cuts: readonly (readonly [number, number])[] = [
    [1, 700],
    [2, 700],
    [6, 700],
    [65_536, 70_000],
    [Infinity, 70_000],
  ];
  for (const [size, length] of cuts) {
    const stream = [...frame("o", text.encode("one")), ...frame("x"), ...frame("o", new Uint8Array(length).fill(7))];
    const frames = new Frames();
    const found = [];
    for (let at = 0; at < stream.length; at += size)
      found.push(...frames.take(new Uint8Array(stream.slice(at, at + size))));
    expect(found.map(({ kind, content }) => [kind, content.length])).toEqual([
      ["o", 3],
      ["x", 0],
      ["o", length],
    ]);
    expect(new TextDecoder().decode(found[0]?.content)).toBe("one");
  }
});

test("the owner and operators open a terminal, members where it is shared, and no viewer", () => {
  const me = (role: "viewer" | "user" | "operator") => ({
    name: "ada",
    role,
    projects: ["vision"],
    priority_max: "normal" as const,
  });
  const roles = [me("viewer"), me("user"), me("operator")];
  const own = { owner: "ada", project: "vision", shares_access: false };
  expect(roles.map((one) => mayOpen(one, own))).toEqual([false, true, true]);
  expect(roles.map((one) => mayOpen(one, { ...own, owner: "ben" }))).toEqual([false, false, true]);
  expect(roles.map((one) => mayOpen(one, { ...own, owner: "ben", shares_access: true }))).toEqual([false, true, true]);
  expect(mayOpen(null, own)).toBe(false);
});
