import { expect, test, vi } from "vitest";
import { colourOf, COLOURS, Palette } from "../src/format/colours";

test("a holder keeps its colour, and no two of a few have the same", () => {
  const palette = new Palette();
  const names = Array.from({ length: COLOURS }, (_, index) => `user-${index}`);
  const first = names.map((name) => palette.colourOf(name));
  expect(new Set(first).size).toBe(COLOURS);
  expect(
    names
      .toReversed()
      .map((name) => palette.colourOf(name))
      .toReversed(),
  ).toEqual(first);
});

test("it has the same colour on another page, where nobody took it", () => {
  expect(new Palette().colourOf("ada")).toBe(new Palette().colourOf("ada"));
});

test("those who hold nothing any more make room for others", () => {
  const palette = new Palette();
  for (let index = 0; index <= COLOURS; index += 1) palette.colourOf(`old-${index}`);
  palette.keep(new Set(["old-0"]));
  const fresh = Array.from({ length: COLOURS - 1 }, (_, index) => palette.colourOf(`new-${index}`));
  expect(new Set([...fresh, palette.colourOf("old-0")]).size).toBe(COLOURS);
});

test("what was given before is kept, and told of", () => {
  const told: [string, number][][] = [];
  const palette = new Palette([["ada", 3]], (given) => told.push([...given]));
  expect(palette.colourOf("ada")).toBe(3);
  expect(palette.colourOf("ben")).not.toBe(3);
  expect(told).toEqual([
    [
      ["ada", 3],
      ["ben", palette.colourOf("ben")],
    ],
  ]);
});

test("sessions take no colour from people", () => {
  const before = new Palette().colourOf("zoe");
  for (let index = 0; index < 2 * COLOURS; index += 1) colourOf(`ses_${index}`);
  expect(colourOf("zoe")).toBe(before);
});

test("a browser that keeps nothing, or has no room, shows colours all the same", async () => {
  const full = () => {
    throw new Error("no room");
  };
  vi.stubGlobal("localStorage", { getItem: full, setItem: full });
  vi.resetModules();
  const fresh = await import("../src/format/colours");
  expect(fresh.colourOf("ada")).toBe(new Palette().colourOf("ada"));
  vi.unstubAllGlobals();
});
