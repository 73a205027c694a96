import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { filled } from "../src/graphiql/filling";
import { LOOKUP, SUBMIT } from "../src/graphiql/places";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

type Page = { edges: { node: { id: string } }[] };
const page = (...ids: string[]): Page => ({ edges: ids.map((id) => ({ node: { id } })) });

/** A server with these sessions, and this answer to a submission, whose session waits for ever. */
function server(found: Record<string, Page>, answer: string) {
  const asked: { query: string; variables: unknown }[] = [];
  return {
    asked,
    submitted: () => asked.filter(({ query }) => query === SUBMIT).length,
    ask: async (query: string, variables: unknown) => {
      asked.push({ query, variables });
      if (query === LOOKUP) return found;
      if (answer === "CreateSessionSuccess") found.coming = page("s-coming");
      return { create_session: { __typename: answer } };
    },
  };
}

test("a viewer does not wait, and gets another user's session for read-only examples", async () => {
  const { ask, submitted } = server({ newest: page("s-else") }, "Forbidden");
  expect(await filled(`{ "id": "<ended session>" }`, "vera", ask)).toBe(`{ "id": "<ended session>" }`);
  expect(await filled(`{ "id": "<newest session>" }`, "vera", ask)).toBe(`{ "id": "s-else" }`);
  expect(submitted()).toBe(2);
});

test("a submitted session is awaited and not submitted twice", async () => {
  const { ask, submitted } = server({ newest: page("s-coming") }, "CreateSessionSuccess");
  for (let presses = 0; presses < 2; presses += 1) {
    const filling = filled(`{ "id": "<ended session>" }`, "ute", ask);
    await vi.runAllTimersAsync();
    expect(await filling).toBe(`{ "id": "<ended session>" }`);
  }
  expect(submitted()).toBe(1);
});

test("operator-only values are queried only where needed", async () => {
  const { ask, asked } = server({}, "Forbidden");
  await filled(`{ "agent_id": "<first agent>" }`, "ute", ask);
  await filled(`{ "threshold": "<backlog threshold>", "device_id": "<first device>" }`, "olga", ask);
  expect(asked.map(({ variables }) => variables)).toEqual([
    { me: "ute", gpus: false, rules: false },
    { me: "olga", gpus: true, rules: true },
  ]);
});
