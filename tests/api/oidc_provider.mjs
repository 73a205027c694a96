// An identity provider of its own, which gives every client a token that says what the test wants it to.
//
// node oidc_provider.mjs PACKAGE_JSON PORT CLIENTS KEYS
//
// CLIENTS is {id: {ttl, claims}} and KEYS a set of private keys, both as JSON. Prints its address once it listens.
import { once } from "node:events";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [manifest, port, clients, keys] = process.argv.slice(2);
const { resolve } = createRequire(manifest);
const { default: Provider } = await import(pathToFileURL(resolve("oidc-provider")).href);

const people = JSON.parse(clients);
const jwks = JSON.parse(keys);
const [{ alg }] = jwks.keys;
const server = createServer();
server.listen(Number(port), "127.0.0.1");
await once(server, "listening");
const issuer = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(issuer, {
  clients: Object.keys(people).map((client_id) => ({
    client_id,
    client_secret: "a secret that everybody knows",
    grant_types: ["client_credentials"],
    redirect_uris: [],
    response_types: [],
    id_token_signed_response_alg: alg,
  })),
  jwks,
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_, audience, client) => ({
        audience: audience.replace("urn:", ""),
        accessTokenFormat: "jwt",
        accessTokenTTL: people[client.clientId].ttl,
        jwt: { sign: { alg } },
        scope: "",
      }),
    },
  },
  extraTokenClaims: (_, token) => people[token.clientId].claims,
});
server.on("request", provider.callback());
console.log(JSON.stringify({ issuer }));
