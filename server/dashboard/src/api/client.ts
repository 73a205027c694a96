import { Client, fetchExchange, type AnyVariables, type TypedDocumentNode } from "@urql/core";
import { faultOf, type Fault } from "./faults";
import { Observable } from "./observable";
import { signedOut } from "./presence";

/** Without a cache: the server's view is in memory and cheap to ask, and what is shown is always what it says. */
const client = new Client({
  url: "/graphql",
  exchanges: [fetchExchange],
  preferGetMethod: false,
  fetchOptions: { credentials: "same-origin" },
});

/** Milliseconds since the epoch: when the server answered last. */
export const answered = new Observable(0);

export class Refusal extends Error {
  constructor(readonly fault: Fault) {
    super(fault.message);
  }
}

/** Asks once. Throws a Refusal. */
export async function ask<Data, Variables extends AnyVariables>(
  document: TypedDocumentNode<Data, Variables>,
  variables: Variables,
): Promise<Data> {
  const result = await client.query(document, variables).toPromise();
  return dataOf(result);
}

/** Changes something. Throws a Refusal; expected failures are in the data, as the union members that they are. */
export async function change<Data, Variables extends AnyVariables>(
  document: TypedDocumentNode<Data, Variables>,
  variables: Variables,
): Promise<Data> {
  const result = await client.mutation(document, variables).toPromise();
  return dataOf(result);
}

function dataOf<Data>(result: { data?: Data; error?: Parameters<typeof faultOf>[0] }): Data {
  if (result.error) {
    const fault = faultOf(result.error);
    if (fault.kind === "signed_out") signedOut();
    throw new Refusal(fault);
  }
  if (result.data === undefined) throw new Refusal({ kind: "away", message: "The server gave no answer." });
  answered.set(Date.now());
  return result.data;
}
