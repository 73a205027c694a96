import { Kind, OperationTypeNode, parse, type DocumentNode } from "graphql";
import { learnTime } from "../api/time";

/** The data of the server's answer to a document; null if a non-null part was refused. */
export async function ask(query: string, variables: unknown = {}): Promise<unknown> {
  const { data } = (await (await post(query, variables)).json()) as { data?: unknown };
  return data;
}

/** Whether the server accepts the browser's cookie. Fails if it cannot be reached. */
export async function isSignedIn(): Promise<boolean> {
  return (await post("{ __typename }")).status !== 401;
}

async function post(query: string, variables: unknown = {}): Promise<Response> {
  const asked = Date.now();
  const answer = await fetch("/graphql", {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "application/json" },
    body: JSON.stringify({ query, variables }),
  });
  learnTime(answer.headers.get("date"), asked);
  return answer;
}

/** Whether a document has a subscription. */
export function isLive(document: DocumentNode | undefined): boolean {
  return (document?.definitions ?? []).some(
    (one) => one.kind === Kind.OPERATION_DEFINITION && one.operation === OperationTypeNode.SUBSCRIPTION,
  );
}

/**
 * A request and its document, as GraphiQL would send them with what it has not learned yet: it reads the query a moment
 * after a change, and until then names an operation of the earlier one.
 */
export function upToDate<Asked extends { query: string; operationName?: string | null }>(
  asked: Asked,
): { readonly asked: Asked; readonly documentAST?: DocumentNode } {
  let documentAST: DocumentNode;
  try {
    documentAST = parse(asked.query);
  } catch {
    return { asked }; // the server says what is wrong
  }
  const isNamed = documentAST.definitions.some(
    (one) => one.kind === Kind.OPERATION_DEFINITION && one.name?.value === asked.operationName,
  );
  return { asked: isNamed ? asked : { ...asked, operationName: null }, documentAST };
}
