import { describe, expect, test } from "vitest";
import { addressOf, rowsOf } from "../src/session/previews";

describe("previews of results", () => {
  test("each part of a path is encoded in the address", () => {
    expect(addressOf("ses_1", 0, "a b/ü?#%.csv")).toBe("/sessions/ses_1/files/a%20b/%C3%BC%3F%23%25.csv");
    expect(addressOf("ses_1", 2, "x")).toBe("/sessions/ses_1/files/x?rank=2");
  });

  test("a table has quoted cells, and truncated rows are left out", () => {
    expect(rowsOf('a,b\r\n"1,""2""\n3",4\n', ",", false)).toEqual([
      ["a", "b"],
      ['1,"2"\n3', "4"],
    ]);
    expect(rowsOf("a,b\n1,2\n3,", ",", true)).toEqual([
      ["a", "b"],
      ["1", "2"],
    ]);
    expect(rowsOf("a\tb\n1\t2", "\t", false)).toEqual([
      ["a", "b"],
      ["1", "2"],
    ]);
    expect(rowsOf("x\n".repeat(1000), ",", false)).toHaveLength(100);
  });
});
