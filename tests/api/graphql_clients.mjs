// Follows a subscription with the npm clients, and prints each result as a line of JSON.
//
// node graphql_clients.mjs PACKAGE_JSON ws|sse PORT TOKEN COUNT PAYLOAD
//
// After COUNT results it unsubscribes and prints {"ended": true}. When the connection is lost it goes on from the last
// number that it saw, for as long as it takes.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [manifest, kind, port, token, count, payload] = process.argv.slice(2);
const { resolve } = createRequire(manifest);
const load = (name) => import(pathToFileURL(resolve(name)).href);

async function connect() {
  const place = `127.0.0.1:${port}/graphql`;
  if (kind === "sse") {
    const { createClient } = await load("graphql-sse");
    const headers = { authorization: `Bearer ${token}` };
    return createClient({ url: `http://${place}`, headers, retryAttempts: 0 });
  }
  const [{ createClient }, { default: webSocketImpl }] = await Promise.all([
    load("graphql-ws"),
    load("ws"),
  ]);
  return createClient({
    url: `ws://${place}`,
    webSocketImpl,
    connectionParams: { token },
    retryAttempts: 0,
  });
}

function pause(ms) {
  return new Promise((done) => setTimeout(done, ms));
}

function print(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

const client = await connect();
const request = JSON.parse(payload);
let left = Number(count);
while (left > 0) {
  try {
    const results = client.iterate(request);
    for await (const result of results) {
      print(result);
      const [item] = Object.values(result.data ?? {});
      const number = item?.event_number ?? item?.number;
      if (number !== undefined)
        request.variables = { ...request.variables, after: number };
      left -= 1;
      if (left === 0) break;
    }
    if (left > 0) break; // The server says that there is no more.
  } catch (error) {
    if (Array.isArray(error)) {
      print({ refused: error });
      break;
    }
    await pause(50);
  }
}
print({ ended: true });
client.dispose();
