import { expect, test, vi } from "vitest";
import { SubscriptionFault } from "../src/api/socket";
import { LogFollower } from "../src/log/following";

const chunk = (text: string, next_offset: number, at_end: boolean) => ({ session_logs: { text, next_offset, at_end } });
const courses = [
  async function* () {
    yield chunk("one\n", 4, false);
    throw new SubscriptionFault("the leader was replaced by another server", "unavailable");
  },
  async function* () {
    yield chunk("two\n", 8, true);
  },
];
const offsets: number[] = [];

vi.mock("../src/api/feed", () => ({ connection: { get: () => ({ state: "live" }) } }));
vi.mock("../src/api/socket", async (original) => ({
  ...(await original<typeof import("../src/api/socket")>()),
  Socket: class {
    follow(_document: unknown, { offset }: { offset: number }) {
      offsets.push(offset);
      return courses[offsets.length - 1]?.();
    }
  },
}));

test("a log keeps what it has and continues when another server leads", async () => {
  vi.useFakeTimers();
  const seen = new Set<string>();
  const follower = new LogFollower({ id: "ses_1", rank: 0, attempt: null }, () =>
    seen.add(`${follower.state} ${follower.unavailableReason}`),
  );
  await vi.advanceTimersByTimeAsync(500);
  expect([...seen]).toEqual(["lost the leader was replaced by another server"]);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(follower.state).toBe("ended");
  expect(offsets).toEqual([0, 4]);
  vi.useRealTimers();
});
