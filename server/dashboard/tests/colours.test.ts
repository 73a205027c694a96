import { expect, test, vi } from "vitest";
import { colourOf, COLOURS, Palette } from "../src/format/colours";

test("a holder keeps its colour, and a few holders all differ", () => {
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

test("a holder has the same colour on another page, if it is free", () => {
  expect(new Palette().colourOf("ada")).toBe(new Palette().colourOf("ada"));
});

test("colours of former holders are reused", () => {
  const palette = new Palette();
  for (let index = 0; index <= COLOURS; index += 1) palette.colourOf(`old-${index}`);
  palette.keep(new Set(["old-0"]));
  const fresh = Array.from({ length: COLOURS - 1 }, (_, index) => palette.colourOf(`new-${index}`));
  expect(new Set([...fresh, palette.colourOf("old-0")]).size).toBe(COLOURS);
});

test("earlier assignments are kept and reported", () => {
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

test("sessions take no colours from users", () => {
  const before = new Palette().colourOf("zoe");
  for (let index = 0; index < 2 * COLOURS; index += 1) colourOf(`ses_${index}`);
  expect(colourOf("zoe")).toBe(before);
});

test("colours work without browser storage or when it is full", async () => {
  const full = () => {
    throw new Error("no room");
  };
  vi.stubGlobal("localStorage", { getItem: full, setItem: full });
  vi.resetModules();
  const fresh = await import("../src/format/colours");
  expect(fresh.colourOf("ada")).toBe(new Palette().colourOf("ada"));
  vi.unstubAllGlobals();
});
