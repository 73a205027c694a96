"""An identity provider in a process of its own, and a server that lets its people in."""

import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from aliquot.api.application import create_app
from aliquot.api.authentication import TokenAuth
from aliquot.api.limits import Limits
from aliquot.api.oidc.jwks import ProviderKeys
from aliquot.api.oidc.settings import OidcSettings
from aliquot.api.oidc.tokens import OidcAuthenticator, Tokens
from aliquot.clock import SystemClock
from aliquot.service.accounts.api_keys import Accounts
from aliquot.service.accounts.federation import Federation
from aliquot_schema.ids import UserId
from api_server import listening
from api_service import accounts_of, face_of
from machine_lacks import node_with
from own_processes import end
from service_bench import agent
from service_stage import Stage, stage

ROOT: Final = Path(__file__).parents[2]
DASHBOARD: Final = ROOT / "server" / "dashboard"
SCRIPT: Final = ROOT / "tests" / "api" / "oidc_provider.mjs"
SECRET: Final = "a secret that everybody knows"
AUDIENCE: Final = "aliquot"


def signing_key(kid: str) -> dict[str, Any]:
    """A new private key, as the provider takes it."""
    key: dict[str, Any] = ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()), as_dict=True)
    return key | {"kid": kid, "alg": "ES256", "use": "sig"}


@dataclass(frozen=True)
class Provider:
    """Where it is."""

    issuer: str
    process: "subprocess.Popen[bytes]"

    def stop(self) -> None:
        """End it; doing it twice is no error."""
        end(self.process)

    def token(self, client: str, *, audience: str = AUDIENCE) -> str:
        """A token of a client."""
        asked = {"grant_type": "client_credentials", "resource": f"urn:{audience}"}
        answer = httpx.post(f"{self.issuer}/token", data=asked, auth=(client, SECRET), timeout=60)
        assert answer.status_code == 200, answer.text
        token: str = answer.json()["access_token"]
        return token


@contextmanager
def provider(
    clients: Mapping[str, Mapping[str, Any]],
    *,
    ttl: int = 600,
    key: str = "first",
    port: int = 0,
    host: str = "127.0.0.1",
    browser_client: str | None = None,
) -> Iterator[Provider]:
    """Start one, with these claims of its clients; stop it at the end.

    Args:
        browser_client: the client that signs people in, who are the others; they choose any password.
    """
    node = node_with("oidc-provider")
    people: dict[str, Any] = {
        name: {"ttl": claims.get("ttl", ttl), "claims": claims} for name, claims in clients.items()
    }
    if browser_client is not None:
        people[browser_client] = {"ttl": ttl, "claims": {}, "isBrowser": True}
    arguments = [
        DASHBOARD / "package.json",
        host,
        str(port),
        json.dumps(people),
        json.dumps({"keys": [signing_key(key)]}),
    ]
    process = subprocess.Popen(
        [node, SCRIPT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ
    )
    assert process.stdout is not None
    with process.stdout:
        try:
            line = process.stdout.readline()
            assert line, "the provider ended without a word"
            yield Provider(json.loads(line)["issuer"], process)
        finally:
            end(process)


@dataclass
class OidcServer:
    """A server, and what a test acts on."""

    stage: Stage
    accounts: Accounts
    authenticator: OidcAuthenticator
    url: str

    def client(self, token: str) -> httpx.AsyncClient:
        """One that shows a token."""
        return httpx.AsyncClient(
            verify=False, base_url=self.url, headers={"authorization": f"Bearer {token}"}, timeout=60
        )

    async def me(self, token: str) -> httpx.Response:
        """The identity that the server sees."""
        async with self.client(token) as client:
            return await client.post("/graphql", json={"query": "{ me { name role projects } }"})


@asynccontextmanager
async def oidc_server(
    issuer: str, *, keys: ProviderKeys | None = None, limits: Limits | None = None, **settings: Any
) -> AsyncIterator[OidcServer]:
    """The real service behind the real HTTP face, which takes tokens of a provider; passes are made by hand."""
    async with AsyncExitStack() as stack:
        parts = await stack.enter_async_context(stage([agent("a", devices=1)]))
        accounts = accounts_of(parts, clock=SystemClock())
        terms = OidcSettings(oidc_issuer=issuer, **settings)
        people, owner = parts.state.people, UserId("root")
        door = OidcAuthenticator(
            Tokens(keys or ProviderKeys(issuer), issuer=issuer, audience=AUDIENCE, leeway_s=terms.oidc_leeway_s),
            terms=terms,
            federation=Federation(
                users=accounts,
                people=people,
                journal=parts.journal,
                clock=SystemClock(),
                is_open=terms.oidc_users == "new",
                owner=owner,
            ),
            people=people,
        )
        auth = TokenAuth("the-servers-own-token", owner, people=people, door=door)
        deps = face_of(parts, accounts=accounts, auth=auth, limits=limits or Limits())
        port = await stack.enter_async_context(listening(create_app(deps), lifespan="off"))
        yield OidcServer(parts, accounts, door, f"http://127.0.0.1:{port}")
