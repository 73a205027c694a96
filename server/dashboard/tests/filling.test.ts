import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { filled } from "../src/graphiql/filling";
import { LOOKUP, SUBMIT } from "../src/graphiql/places";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

type Page = { edges: { node: { id: string } }[] };
const page = (...ids: string[]): Page => ({ edges: ids.map((id) => ({ node: { id } })) });

/** A server that finds these sessions, and answers so to who submits one, which waits for ever. */
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

test("who may not submit waits for nothing, and is shown somebody's session where it is only read", async () => {
  const { ask, submitted } = server({ newest: page("s-else") }, "Forbidden");
  expect(await filled(`{ "id": "<ended session>" }`, "vera", ask)).toBe(`{ "id": "<ended session>" }`);
  expect(await filled(`{ "id": "<newest session>" }`, "vera", ask)).toBe(`{ "id": "s-else" }`);
  expect(submitted()).toBe(2);
});

test("one that is submitted is waited for, and not submitted again while it comes", async () => {
  const { ask, submitted } = server({ newest: page("s-coming") }, "CreateSessionSuccess");
  for (let presses = 0; presses < 2; presses += 1) {
    const filling = filled(`{ "id": "<ended session>" }`, "ute", ask);
    await vi.runAllTimersAsync();
    expect(await filling).toBe(`{ "id": "<ended session>" }`);
  }
  expect(submitted()).toBe(1);
});

test("what is for operators is asked for where it is wanted alone", async () => {
  const { ask, asked } = server({}, "Forbidden");
  await filled(`{ "agent_id": "<first agent>" }`, "ute", ask);
  await filled(`{ "threshold": "<backlog threshold>", "device_id": "<first device>" }`, "olga", ask);
  expect(asked.map(({ variables }) => variables)).toEqual([
    { me: "ute", gpus: false, rules: false },
    { me: "olga", gpus: true, rules: true },
  ]);
});
