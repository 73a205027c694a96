import type { CombinedError } from "@urql/core";

/** Why a request failed: the server is unreachable, the viewer is not signed in, or the server refused. */
export interface Fault {
  readonly kind: "away" | "signed_out" | "refused";
  readonly message: string;
  /** Whether the server may have begun to carry out the request. */
  readonly mayHaveBegun: boolean;
}

/**
 * The fault of an answer.
 *
 * @param data null if the request was carried out in part; undefined if it was refused before, as GraphQL has it.
 */
export function faultOf(error: CombinedError, data: unknown): Fault {
  const status = (error.response as Response | undefined)?.status;
  const first = error.graphQLErrors[0];
  if (status === 401)
    return { kind: "signed_out", message: first?.message ?? "You are not signed in.", mayHaveBegun: false };
  if (first) return { kind: "refused", message: first.message, mayHaveBegun: data !== undefined };
  if (status !== undefined && status < 500)
    return { kind: "refused", message: `The server answered ${status}.`, mayHaveBegun: false };
  return { kind: "away", message: "The server cannot be reached.", mayHaveBegun: true };
}
