import { describe, expect, test } from "vitest";
import { amountOf, bytes, plain, shares } from "../src/format/amounts";

describe("amounts as the API writes them", () => {
  test.each([
    ["0.50", 0.5],
    ["8", 8],
    ["512g", 512 * 2 ** 30],
    ["1.5k", 1536],
    ["64M", 64 * 2 ** 20],
    ["2GiB", 2 * 2 ** 30],
    ["unlimited", Infinity],
  ])("%s is %d", (text, value) => expect(amountOf(text)).toBe(value));

  test.each(["", "abc", "-1", "1e3", "1 2", "g"])("%s is none", (text) => expect(amountOf(text)).toBeNaN());
});

test("figures have as many places as help", () => {
  expect([plain(10.7), plain(2.3000000000000003), plain(4)]).toEqual(["10.7", "2.3", "4"]);
  expect(shares(0.5)).toBe("0.50");
  expect([bytes(0), bytes(1536), bytes(85_899_345_920), bytes(8.2 * 2 ** 30)]).toEqual([
    "0 B",
    "1.5 KiB",
    "80 GiB",
    "8.2 GiB",
  ]);
});
