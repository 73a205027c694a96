/** The data of the server's answer to a document; null if a non-null part was refused. */
export async function ask(query: string, variables: unknown = {}): Promise<unknown> {
  const answer = await fetch("/graphql", {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "application/json" },
    body: JSON.stringify({ query, variables }),
  });
  const { data } = (await answer.json()) as { data?: unknown };
  return data;
}
