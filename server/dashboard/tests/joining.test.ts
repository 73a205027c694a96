import { expect, test } from "vitest";
import { joined } from "../src/api/joining";

test("an action is not run twice at a time, but again after its end", async () => {
  let runs = 0;
  const act = () => Promise.resolve(++runs);
  expect(await Promise.all([joined("book", act), joined("book", act), joined("drain", act)])).toEqual([1, 1, 2]);
  expect(await joined("book", act)).toBe(3);
});

test("a failed action can be run again", async () => {
  const fails = () => Promise.reject(new Error("away"));
  await Promise.all([1, 2].map(() => expect(joined("save", fails)).rejects.toThrow("away")));
  expect(await joined("save", () => Promise.resolve("saved"))).toBe("saved");
});
