import { expect, test } from "vitest";
import { inWords } from "../src/graphiql/answers";

async function* answering(answers: readonly unknown[], error?: unknown): AsyncGenerator<unknown> {
  yield* answers;
  if (error !== undefined) throw error;
}

async function shown(answers: AsyncIterable<unknown>, isSignedIn: () => Promise<boolean>): Promise<string> {
  const found: unknown[] = [];
  for await (const one of inWords(answers, isSignedIn)) found.push(one);
  return JSON.stringify(found);
}

const signedIn = () => Promise.resolve(true);
const signedOut = () => Promise.resolve(false);
const closed = new Error("Socket closed with event 4401 Key ended");

test("answers are passed on as they are", async () => {
  expect(await shown(answering([{ data: 1 }, [{ data: 2 }]]), signedIn)).toBe('[{"data":1},[{"data":2}]]');
  const refused = [{ message: "There is no such field." }];
  expect(await shown(answering([], refused), signedIn)).toBe(JSON.stringify([{ errors: refused }]));
});

test("after the sign-in has ended, the answer says what to do, without a stack trace", async () => {
  const unauthenticated = { errors: [{ message: "Send a token", extensions: { code: "unauthenticated" } }] };
  for (const answers of [answering([{ data: 1 }], closed), answering([unauthenticated])]) {
    const text = await shown(answers, signedOut);
    expect(text).toContain("Your sign-in has ended");
    expect(text).not.toMatch(/stack|4401|token/);
  }
});

test("after a lost connection, the answer says so", async () => {
  const away = () => Promise.reject(new TypeError("Failed to fetch"));
  for (const isSignedIn of [signedIn, away])
    expect(await shown(answering([], closed), isSignedIn)).toContain("The connection to the server was lost.");
});

test("an operation that waits for its next answer stops at once", async () => {
  let isStopped = false;
  const waiting: AsyncIterableIterator<unknown> = {
    [Symbol.asyncIterator]() {
      return this;
    },
    next: () => new Promise(() => undefined),
    return: () => {
      isStopped = true;
      return Promise.resolve({ done: true, value: undefined });
    },
  };
  const answers = inWords(waiting, signedIn);
  void answers.next();
  await answers.return?.();
  expect(isStopped).toBe(true);
});
