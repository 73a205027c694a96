import Color from "colorjs.io";
import { describe, expect, test } from "vitest";
import { readFileSync } from "node:fs";
import { Status } from "../src/parts/Status";

type Triple = readonly [number, number, number];

/** Linear RGB as seen with one kind of cone missing: Machado, Oliveira, Fernandes 2009, severity 1.0. */
const VISIONS: Readonly<Record<string, readonly Triple[]>> = {
  normal: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protan: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deutan: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritan: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};
/** Minimum CIEDE2000 differences; 1 is just visible side by side. */
const HOLDERS_APART: Readonly<Record<string, number>> = { normal: 12, protan: 12, deutan: 12, tritan: 10 };
const STATES_APART = 12;
/** Maximum OKLCH hue difference of themes, degrees. */
const HUES_APART_MAX = 15;
const HOLDERS = Array.from({ length: 10 }, (_, index) => `holder-${index}`);
const STATES = ["good", "warn", "bad"];
const GROUNDS = ["ground", "surface", "raised", "bad-ground"];
const tokens = tokensOf(readFileSync(new URL("../src/styles/tokens.css", import.meta.url), "utf8"));

function colourOf(name: string, theme: number): Color {
  const found = tokens.get(name)?.[theme];
  if (found === undefined) throw new Error(`no ${name}`);
  return new Color(found);
}

describe.each([
  ["light", 0],
  ["dark", 1],
])("in the %s theme", (_theme, index) => {
  const colour = (name: string) => colourOf(name, index);

  test.each(Object.keys(VISIONS))("any two holders look different with %s vision", (vision) => {
    const seen = HOLDERS.map((name) => seenBy(vision, colour(name)));
    const distances = seen.flatMap((one, at) => seen.slice(at + 1).map((other) => one.deltaE2000(other)));
    expect(distances).toHaveLength(45);
    expect(Math.min(...distances)).toBeGreaterThanOrEqual(HOLDERS_APART[vision] ?? NaN);
  });

  test("no holder looks like a state", () => {
    const distances = HOLDERS.flatMap((name) => STATES.map((state) => colour(name).deltaE2000(colour(state))));
    expect(Math.min(...distances)).toBeGreaterThanOrEqual(STATES_APART);
  });

  test("holder colours contrast with every background", () => {
    const contrasts = HOLDERS.flatMap((name) => GROUNDS.map((ground) => colour(name).contrastWCAG21(colour(ground))));
    expect(Math.min(...contrasts)).toBeGreaterThanOrEqual(3);
  });

  test("holder colours are sorted by hue", () => {
    const hues = HOLDERS.map((name) => hueOf(colour(name)));
    expect(hues).toEqual(hues.toSorted((one, other) => one - other));
  });
});

test("a holder keeps its hue in both themes", () => {
  const apart = HOLDERS.map((name) => Math.abs(hueOf(colourOf(name, 0)) - hueOf(colourOf(name, 1))));
  expect(Math.max(...apart)).toBeLessThanOrEqual(HUES_APART_MAX);
});

test("completed sessions are green", () => {
  expect(Status({ state: "completed" }).props.className).toContain("fill-good");
  for (const theme of [0, 1]) {
    const hue = hueOf(colourOf("good", theme));
    expect(hue).toBeGreaterThan(120);
    expect(hue).toBeLessThan(170);
  }
});

test("deltaE2000 is CIEDE2000: first pair of Sharma, Wu and Dalal 2005", () => {
  const [one, other] = [new Color("lab", [50, 2.6772, -79.7751]), new Color("lab", [50, 0, -82.7485])];
  expect(one.deltaE2000(other)).toBeCloseTo(2.0425, 3);
});

/** The colours by name, light and dark. */
function tokensOf(text: string): Map<string, readonly [string, string]> {
  const pairs = text.matchAll(/--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g);
  return new Map([...pairs].map(([, name = "", light = "", dark = ""]) => [name, [light, dark]]));
}

/** Degrees from 10 to 370, so that the order of holders begins at red. */
function hueOf(colour: Color): number {
  const hue = colour.oklch["h"] ?? NaN;
  return hue < 10 ? hue + 360 : hue;
}

function seenBy(vision: string, colour: Color): Color {
  const linear = colour.to("srgb-linear").coords.map((value) => value ?? 0);
  const seen = (VISIONS[vision] ?? []).map((row) => {
    const value = row.reduce((sum, part, at) => sum + part * (linear[at] ?? 0), 0);
    return Math.min(1, Math.max(0, value));
  });
  return new Color("srgb-linear", [seen[0] ?? NaN, seen[1] ?? NaN, seen[2] ?? NaN]);
}
