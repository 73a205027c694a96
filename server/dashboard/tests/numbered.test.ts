import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { followNumbered } from "../src/api/numbered";
import { Closed } from "../src/api/socket";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Follows these courses, one per opened subscription. Ends with the last one. */
async function followed(...courses: (() => AsyncGenerator<number>)[]) {
  const control = new AbortController();
  const openedAfter: (number | null)[] = [];
  const taken: number[] = [];
  let lost = 0;
  const following = followNumbered<number>(
    {
      open: (after) => {
        const course = courses[openedAfter.length];
        openedAfter.push(after);
        if (openedAfter.length === courses.length) control.abort();
        return course?.() ?? nothing();
      },
      take: async (item) => {
        taken.push(item);
        return item;
      },
      onLost: () => {
        lost += 1;
      },
    },
    { signal: control.signal },
  );
  await vi.runAllTimersAsync();
  await following;
  return { openedAfter, taken, lost };
}

async function* nothing(): AsyncGenerator<number> {}

async function* cutOff(...items: number[]): AsyncGenerator<number> {
  yield* items;
  throw new Closed(1006);
}

async function* refused(): AsyncGenerator<number> {
  throw new Error("that number is archived");
}

test("a lost connection resumes after the last number", async () => {
  const seen = await followed(
    () => cutOff(4, 5),
    () => cutOff(),
    () => cutOff(6),
    nothing,
  );
  expect(seen).toEqual({ openedAfter: [null, 5, 5, 6], taken: [4, 5, 6], lost: 3 });
});

test("a refusal restarts from a snapshot", async () => {
  const seen = await followed(
    () => cutOff(4),
    refused,
    () => cutOff(9),
    nothing,
  );
  expect(seen.openedAfter).toEqual([null, 4, null, 9]);
});

test("items after the abort are ignored", async () => {
  const seen = await followed(
    () => cutOff(1),
    () => cutOff(2),
  );
  expect(seen.taken).toEqual([1]);
});
