import { GraphQLError, type ExecutionResult } from "graphql";

const ENDED =
  "Your sign-in has ended, for example because its key was revoked or has expired. Sign in on the dashboard in another " +
  "tab, then run this again.";
const AWAY = "The connection to the server was lost. Run this again when the server answers.";

/** The answer to a browser that is not signed in. */
export const SIGNED_OUT = saying(ENDED);

/**
 * The answers to an operation, with what to do instead of the stack trace that GraphiQL shows for a lost connection, and
 * instead of the words that the server has for programs without valid credentials.
 *
 * @param isSignedIn asks the server; fails if it cannot be reached.
 */
export function inWords<T>(
  answers: AsyncIterable<T>,
  isSignedIn: () => Promise<boolean>,
): AsyncIterableIterator<T | ExecutionResult> {
  const source = answers[Symbol.asyncIterator]();
  let isOver = false;
  const over = { done: true, value: undefined } as const;
  const failed = async (error: unknown) => {
    isOver = true;
    // The errors of an operation have messages of their own.
    if (Array.isArray(error)) return { done: false, value: { errors: error as GraphQLError[] } };
    return { done: false, value: (await isSignedIn().catch(() => true)) ? saying(AWAY) : SIGNED_OUT };
  };
  // Not a generator: stopping one that waits for the next answer takes until that comes.
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    next: async () => {
      if (isOver) return over;
      try {
        const { done, value } = await source.next();
        return done ? over : { done: false, value: isSignedOut(value) ? SIGNED_OUT : value };
      } catch (error) {
        return failed(error);
      }
    },
    return: async () => {
      isOver = true;
      await source.return?.();
      return over;
    },
  };
}

/** Whether the server has refused a request without valid credentials. */
function isSignedOut(answer: unknown): boolean {
  return (answer as ExecutionResult | null)?.errors?.[0]?.extensions?.code === "unauthenticated";
}

function saying(message: string): ExecutionResult {
  return { errors: [new GraphQLError(message)] };
}
