import { describe, expect, test } from "vitest";
import { addressOf, tableOf } from "../src/session/previews";

describe("previews of results", () => {
  test("each part of a path is encoded in the address", () => {
    expect(addressOf("ses_1", 0, "a b/ü?#%.csv")).toBe("/sessions/ses_1/files/a%20b/%C3%BC%3F%23%25.csv");
    expect(addressOf("ses_1", 2, "x")).toBe("/sessions/ses_1/files/x?rank=2");
  });

  test("a table has quoted cells, and truncated rows are left out", () => {
    expect(tableOf('a,b\r\n"1,""2""\n3",4\n', ",", false).rows).toEqual([
      ["a", "b"],
      ['1,"2"\n3', "4"],
    ]);
    expect(tableOf("a,b\n1,2\n3,", ",", true).rows).toEqual([
      ["a", "b"],
      ["1", "2"],
    ]);
    expect(tableOf("a\tb\n1\t2", "\t", false).rows).toEqual([
      ["a", "b"],
      ["1", "2"],
    ]);
  });

  test("a table that has more rows or columns than are shown is marked", () => {
    const shape = (text: string, isCut = false) => {
      const table = tableOf(text, ",", isCut);
      return [table.rows.length, table.rows[0]?.length, table.isCut];
    };
    expect(shape("x\n".repeat(1000))).toEqual([100, 1, true]);
    expect(shape("x\n".repeat(101))).toEqual([100, 1, true]);
    expect(shape("x\n".repeat(100))).toEqual([100, 1, false]);
    expect(shape(`${"x\n".repeat(99)}x`)).toEqual([100, 1, false]);
    expect(shape(`${"x,".repeat(30)}x\n`)).toEqual([1, 30, true]);
    expect(shape("x\n", true)).toEqual([1, 1, true]);
  });
});
