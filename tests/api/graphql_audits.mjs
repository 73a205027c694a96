// Runs the server audits of the npm package graphql-http, and prints the outcome of each as a line of JSON.
//
// node graphql_audits.mjs PACKAGE_JSON PORT TOKEN
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [manifest, port, token] = process.argv.slice(2);
const { resolve } = createRequire(manifest);
const { serverAudits } = await import(pathToFileURL(resolve("graphql-http")));

function fetchFn(url, init = {}) {
  const headers = { ...init.headers, authorization: `Bearer ${token}` };
  return fetch(url, { ...init, headers });
}

for (const audit of serverAudits({
  url: `http://127.0.0.1:${port}/graphql`,
  fetchFn,
})) {
  const { id, name } = audit;
  const { status, reason } = await audit.fn();
  process.stdout.write(`${JSON.stringify({ id, name, status, reason })}\n`);
}
