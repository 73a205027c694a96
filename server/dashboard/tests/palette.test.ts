import { describe, expect, test } from "vitest";
import { readFileSync } from "node:fs";

type Triple = readonly [number, number, number];

/** What is left of linear RGB with one kind of cone missing: Machado, Oliveira, Fernandes 2009, severity 1.0. */
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
/** Of sRGB with the white of D65, as XYZ over that white. */
const XYZ: readonly Triple[] = [
  [0.4339532, 0.376219, 0.1898278],
  [0.2126729, 0.7151522, 0.072175],
  [0.0177577, 0.1094769, 0.8727653],
];
/** Least distances as CIE76 reckons them in Lab, where 2 can just be seen. */
const HOLDERS_APART = 24;
const STATES_APART = 22;
const HOLDERS = Array.from({ length: 10 }, (_, index) => `holder-${index}`);
const STATES = ["good", "warn", "bad"];
const GROUNDS = ["ground", "surface", "raised", "bad-ground"];
const tokens = tokensOf(readFileSync(new URL("../src/styles/tokens.css", import.meta.url), "utf8"));

describe.each([
  ["light", 0],
  ["dark", 1],
])("in the %s theme", (_theme, index) => {
  const colour = (name: string) => linearOf(tokens.get(name)?.[index] ?? `no ${name}`);

  test.each(Object.keys(VISIONS))("any two holders are told apart with %s vision", (vision) => {
    const seen = HOLDERS.map((name) => labOf(seenBy(vision, colour(name))));
    const distances = seen.flatMap((one, at) => seen.slice(at + 1).map((other) => distance(one, other)));
    expect(distances).toHaveLength(45);
    expect(Math.min(...distances)).toBeGreaterThanOrEqual(HOLDERS_APART);
  });

  test("a holder looks like no state", () => {
    const states = STATES.map((name) => labOf(colour(name)));
    const distances = HOLDERS.flatMap((name) => states.map((state) => distance(labOf(colour(name)), state)));
    expect(Math.min(...distances)).toBeGreaterThanOrEqual(STATES_APART);
  });

  test("a holder stands out from every ground that it lies on", () => {
    const contrasts = HOLDERS.flatMap((name) => GROUNDS.map((ground) => contrast(colour(name), colour(ground))));
    expect(Math.min(...contrasts)).toBeGreaterThanOrEqual(3);
  });
});

test("the yardstick is CIE76: white and black are 100 apart", () => {
  expect(distance(labOf(linearOf("#ffffff")), labOf(linearOf("#000000")))).toBeCloseTo(100, 2);
  expect(contrast(linearOf("#ffffff"), linearOf("#000000"))).toBeCloseTo(21, 5);
});

/** The colours by name, light and dark. */
function tokensOf(text: string): Map<string, readonly [string, string]> {
  const pairs = text.matchAll(/--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g);
  return new Map([...pairs].map(([, name = "", light = "", dark = ""]) => [name, [light, dark]]));
}

function linearOf(hex: string): Triple {
  const [red, green, blue] = [1, 3, 5].map((at) => linear(parseInt(hex.slice(at, at + 2), 16) / 255));
  return [red ?? NaN, green ?? NaN, blue ?? NaN];
}

function linear(value: number): number {
  return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
}

function seenBy(vision: string, colour: Triple): Triple {
  const [red, green, blue] = times(VISIONS[vision] ?? [], colour).map((value) => Math.min(1, Math.max(0, value)));
  return [red ?? NaN, green ?? NaN, blue ?? NaN];
}

function labOf(colour: Triple): Triple {
  const [x = NaN, y = NaN, z = NaN] = times(XYZ, colour).map((value) =>
    value > 216 / 24389 ? Math.cbrt(value) : ((24389 / 27) * value + 16) / 116,
  );
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

function times(matrix: readonly Triple[], [x, y, z]: Triple): number[] {
  return matrix.map(([a, b, c]) => a * x + b * y + c * z);
}

function distance(one: Triple, other: Triple): number {
  return Math.hypot(one[0] - other[0], one[1] - other[1], one[2] - other[2]);
}

/** As WCAG 2 reckons it. */
function contrast(one: Triple, other: Triple): number {
  const [light = NaN, dark = NaN] = [one, other]
    .map(([red, green, blue]) => 0.2126 * red + 0.7152 * green + 0.0722 * blue)
    .sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}
