// An identity provider that issues tokens with the claims chosen by the test.
//
// node oidc_provider.mjs PACKAGE_JSON HOST PORT CLIENTS KEYS
//
// CLIENTS is {id: {ttl, claims, isBrowser}}: a client with isBrowser signs people in, whose names are other ids. KEYS is
// a set of private keys. Both are JSON. Prints its address once it listens.
import { once } from "node:events";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [manifest, host, port, clients, keys] = process.argv.slice(2);
const { resolve } = createRequire(manifest);
const { default: Provider } = await import(pathToFileURL(resolve("oidc-provider")).href);

const people = JSON.parse(clients);
const jwks = JSON.parse(keys);
const [{ alg }] = jwks.keys;
const server = createServer();
server.listen(Number(port), "127.0.0.1");
await once(server, "listening");
const issuer = `http://${host}:${server.address().port}`;
const provider = new Provider(issuer, {
  clients: Object.keys(people).map((client_id) => ({
    client_id,
    client_secret: "a secret that everybody knows",
    ...(people[client_id].isBrowser
      ? { redirect_uris: ["http://localhost/login/provider/return"] }
      : { grant_types: ["client_credentials"], redirect_uris: [], response_types: [] }),
    id_token_signed_response_alg: alg,
  })),
  jwks,
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, ...people[id]?.claims }),
  }),
  claims: { profile: ["preferred_username", "groups"], email: ["email", "email_verified"] },
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: true },
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
// Servers of tests have any port.
provider.Client.prototype.redirectUriAllowed = (address) => address.endsWith("/login/provider/return");
server.on("request", provider.callback());
console.log(JSON.stringify({ issuer }));
