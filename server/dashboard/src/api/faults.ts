import type { CombinedError } from "@urql/core";

/** Why a request failed: the server is unreachable, the viewer is not signed in, or the server refused. */
export interface Fault {
  readonly kind: "away" | "signed_out" | "refused";
  readonly message: string;
}

export function faultOf(error: CombinedError): Fault {
  const status = (error.response as Response | undefined)?.status;
  const first = error.graphQLErrors[0];
  if (status === 401) return { kind: "signed_out", message: first?.message ?? "You are not signed in." };
  if (first) return { kind: "refused", message: first.message };
  if (status !== undefined && status < 500) return { kind: "refused", message: `The server answered ${status}.` };
  return { kind: "away", message: "The server cannot be reached." };
}
