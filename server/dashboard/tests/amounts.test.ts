import { describe, expect, test } from "vitest";
import { amountOf, bytes, hoursText, percent, plain, quantities, quantity, shares } from "../src/format/amounts";

describe("amounts in the API's format", () => {
  test.each([
    ["0.50", 0.5],
    ["8", 8],
    ["512g", 512 * 2 ** 30],
    ["1.5k", 1536],
    ["64M", 64 * 2 ** 20],
    ["2GiB", 2 * 2 ** 30],
    ["unlimited", Infinity],
  ])("%s is %d", (text, value) => expect(amountOf(text)).toBe(value));

  test.each(["", "abc", "-1", "1e3", "1 2", "g"])("%s is invalid", (text) => expect(amountOf(text)).toBeNaN());
});

test.each([
  ["cuda.device", "8", "8 GPUs"],
  ["cuda.shares", "0.50", "0.5 GPU"],
  ["cuda.shares", "1.00", "1 GPU"],
  ["cpu", "0", "0 CPUs"],
  ["mem", "64g", "64 GiB"],
  ["tpu.device", "2", "2 tpu.device"],
  ["cuda.device", "unlimited", "unlimited cuda.device"],
])("%s %s is %s", (slot, amount, text) => expect(quantity(slot, amount)).toBe(text));

test.each([
  [0, "0 %"],
  [0.004, "< 1 %"],
  [0.005, "1 %"],
  [0.625, "63 %"],
])("a part of %d is %s", (part, text) => expect(percent(part)).toBe(text));

test("amounts are joined", () => {
  const slots = [
    { slot: "cuda.device", amount: "2" },
    { slot: "mem", amount: "512m" },
  ];
  expect(quantities(slots)).toBe("2 GPUs, 512 MiB");
});

test("figures have sensible decimal places", () => {
  expect([plain(10.7), plain(2.3000000000000003), plain(4)]).toEqual(["10.7", "2.3", "4"]);
  expect(shares(0.5)).toBe("0.50");
  expect([hoursText(0), hoursText(0.0012), hoursText(0.01), hoursText(2.345)]).toEqual(["0", "< 0.01", "0.01", "2.35"]);
  expect([bytes(0), bytes(1536), bytes(85_899_345_920), bytes(8.2 * 2 ** 30)]).toEqual([
    "0 B",
    "1.5 KiB",
    "80 GiB",
    "8.2 GiB",
  ]);
});
