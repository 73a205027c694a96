import { Client, fetchExchange, type AnyVariables, type TypedDocumentNode } from "@urql/core";
import { noteChange } from "./clicks";
import { faultOf, type Fault } from "./faults";
import { joined } from "./joining";
import { Observable } from "./observable";
import { signedOut } from "./presence";
import { learnTime, serverNow } from "./time";

/** Without a cache: queries are cheap, as the server answers from memory, and pages always show its present state. */
const client = new Client({
  url: "/graphql",
  exchanges: [fetchExchange],
  preferGetMethod: false,
  fetchOptions: { credentials: "same-origin" },
});

/** Time of the last answer by the server's clock, milliseconds since the epoch. */
export const answered = new Observable(0);

export class Refusal extends Error {
  constructor(readonly fault: Fault) {
    super(fault.message);
  }
}

/** The server answers within half of this; on a dead connection, a browser waits for many minutes. */
const ANSWER_MS = 60_000;
const REPEATED = new DOMException("The query is sent again.", "AbortError");
let queries = new AbortController();

/** Sends the queries in progress again, as the connections that they were sent on may be dead. */
export function repeatQueries(): void {
  queries.abort(REPEATED);
  queries = new AbortController();
}

/** Runs a query. Throws a Refusal. */
export async function ask<Data, Variables extends AnyVariables>(
  document: TypedDocumentNode<Data, Variables>,
  variables: Variables,
): Promise<Data> {
  for (;;) {
    const { signal } = queries;
    const result = await client.query(document, variables, { fetch: until(signal) }).toPromise();
    if (!result.error || signal.reason !== REPEATED) return dataOf(result);
  }
}

/** Runs a mutation once at a time. Throws a Refusal; expected errors are union members in the data. */
export function change<Data, Variables extends AnyVariables>(
  document: TypedDocumentNode<Data, Variables>,
  variables: Variables,
): Promise<Data> {
  noteChange();
  const names = document.definitions.map((one) => ("name" in one ? one.name?.value : undefined));
  return joined(JSON.stringify([names, variables]), async () =>
    dataOf(await client.mutation(document, variables, { fetch: until() }).toPromise()),
  );
}

/** `fetch` with a time limit, and until one of the signals is aborted. */
function until(...signals: readonly AbortSignal[]): typeof fetch {
  return async (input, init) => {
    const limit = AbortSignal.timeout(ANSWER_MS);
    const all = [limit, ...signals, ...(init?.signal ? [init.signal] : [])];
    const asked = Date.now();
    // Browsers before 2024 have no `any`: there, a dead connection is given up after the limit.
    const answer = await fetch(input, { ...init, signal: "any" in AbortSignal ? AbortSignal.any(all) : limit });
    learnTime(answer.headers.get("date"), asked);
    return answer;
  };
}

function dataOf<Data>(result: { data?: Data; error?: Parameters<typeof faultOf>[0] }): Data {
  if (result.error) {
    const fault = faultOf(result.error, result.data);
    if (fault.kind === "signed_out") signedOut();
    throw new Refusal(fault);
  }
  if (result.data === undefined)
    throw new Refusal({ kind: "away", message: "The server sent no data.", mayHaveBegun: true });
  answered.set(serverNow());
  return result.data;
}
