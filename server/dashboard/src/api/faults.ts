import type { CombinedError } from "@urql/core";

/** Why a request failed: the server is unreachable, the viewer is not signed in, or the server refused. */
export interface Fault {
  readonly kind: "away" | "signed_out" | "refused";
  readonly message: string;
  /** Whether the server may have begun to carry out the request. */
  readonly mayHaveBegun: boolean;
}

/** The server's own words are for programs, which send a token. */
const SIGNED_OUT = "Your sign-in had ended, so this was not done. Sign in, then do it again.";

/**
 * The fault of an answer.
 *
 * @param data null if the request was carried out in part; undefined if it was refused before, as GraphQL has it.
 */
export function faultOf(error: CombinedError, data: unknown): Fault {
  const status = (error.response as Response | undefined)?.status;
  const first = error.graphQLErrors[0];
  if (status === 401) return { kind: "signed_out", message: SIGNED_OUT, mayHaveBegun: false };
  if (first) return { kind: "refused", message: first.message, mayHaveBegun: data !== undefined };
  if (status !== undefined && status < 500)
    return { kind: "refused", message: `The server answered ${status}.`, mayHaveBegun: false };
  return { kind: "away", message: "The server cannot be reached.", mayHaveBegun: true };
}
