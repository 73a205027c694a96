"""Authentication by tokens of a real identity provider, from npm, in its own process."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest
import websockets

from aliquot.api.oidc.jwks import PAUSE_S, ProviderKeys
from aliquot_schema.identity.accounts import Role
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller
from oidc_server import OidcServer, Provider, oidc_server, provider

pytestmark = pytest.mark.anyio

HASTY_S = (2, 8, 32)
PEOPLE = {
    "ann": {"preferred_username": "ann", "groups": ["gpu-users", "vision"]},
    "olga": {"preferred_username": "olga", "groups": ["gpu-operators", "gpu-users"]},
    "guest": {"preferred_username": "guest"},
    **{
        f"hasty{left_s}": {"preferred_username": f"hasty{left_s}", "groups": ["gpu-users"], "ttl": left_s}
        for left_s in HASTY_S
    },
    "machine": {},
}
TERMS: dict[str, Any] = {
    "oidc_users": "new",
    "oidc_roles": {"gpu-users": "user", "gpu-operators": "operator"},
    "oidc_projects": {"vision": "cv"},
}
SUBMIT = "mutation ($input: CreateSessionInput!) { create_session(input: $input) { __typename } }"
WORK = {"input": {"command": {"shell": "true"}, "slots": [{"slot": "cuda.device", "amount": "1"}]}}
WAIT_S = 60
ROOT = Caller(user=UserId("root"), request_id="req_test", role=Role.ADMIN)


@pytest.fixture(scope="module")
def there() -> Iterator[Provider]:
    with provider(PEOPLE) as running:
        yield running


@pytest.fixture
async def here(there: Provider) -> AsyncIterator[OidcServer]:
    async with oidc_server(there.issuer, **TERMS) as running:
        yield running


@asynccontextmanager
async def socket_of(here: OidcServer, token: str) -> AsyncIterator[websockets.ClientConnection]:
    """A WebSocket of a signed-in user."""
    address = here.url.replace("http", "ws") + "/graphql"
    async with websockets.connect(address, subprotocols=[websockets.Subprotocol("graphql-transport-ws")]) as socket:
        await socket.send(json.dumps({"type": "connection_init", "payload": {"token": token}}))
        assert json.loads(await asyncio.wait_for(socket.recv(), WAIT_S))["type"] == "connection_ack"
        yield socket


async def who(here: OidcServer, token: str) -> dict[str, Any]:
    answer = await here.me(token)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["data"]["me"]
    return found


async def test_a_token_gives_the_role_and_projects_of_its_groups(there: Provider, here: OidcServer) -> None:
    assert await who(here, there.token("ann")) == {"name": "ann", "role": "user", "projects": ["cv"]}
    assert await who(here, there.token("olga")) == {"name": "olga", "role": "operator", "projects": []}
    assert await who(here, there.token("guest")) == {"name": "guest", "role": "viewer", "projects": []}
    assert here.stage.state.people.users[UserId("ann")].subject == f"{there.issuer}#ann"


async def test_a_provider_token_is_accepted_over_graphql_and_rest(there: Provider, here: OidcServer) -> None:
    async with here.client(there.token("ann")) as ann, here.client(there.token("guest")) as guest:
        made = await ann.post("/graphql", json={"query": SUBMIT, "variables": WORK})
        assert made.json()["data"]["create_session"]["__typename"] == "CreateSessionSuccess"
        assert (await ann.post("/queue/submit", json={"command": "true"})).status_code == 200
        assert (await guest.get("/queue")).json()["total_queued"] == 2
        assert (await guest.post("/queue/submit", json={"command": "true"})).status_code == 403
        assert (await ann.post("/orchestrator/stop", json={})).status_code == 403


async def test_unknown_users_are_refused_when_only_existing_users_are_allowed(there: Provider) -> None:
    async with oidc_server(there.issuer, oidc_users="existing") as here:
        refused = await here.me(there.token("ann"))
        assert refused.status_code == 401
        assert "there is no user ann" in refused.text


async def test_a_token_with_a_wrong_audience_or_without_a_name_is_refused_with_a_reason(
    there: Provider, here: OidcServer
) -> None:
    for token, words in (
        (there.token("ann", audience="mail"), "Audience"),
        (there.token("machine"), "has no claim preferred_username"),
    ):
        refused = await here.me(token)
        assert refused.status_code == 401
        assert words in refused.text
        assert refused.headers["www-authenticate"] == "Bearer"


async def test_the_claim_with_the_user_name_is_configurable(there: Provider) -> None:
    async with oidc_server(there.issuer, oidc_name_claim="sub", oidc_users="new") as here:
        assert (await who(here, there.token("machine")))["name"] == "machine"


async def test_a_disabled_user_is_refused_and_open_sockets_are_closed(there: Provider, here: OidcServer) -> None:
    token = there.token("ann")
    await who(here, token)
    async with socket_of(here, token) as socket:
        await here.accounts.disable_user(ROOT, "ann", None)
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await asyncio.wait_for(socket.recv(), WAIT_S)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4401
    assert (await here.me(token)).status_code == 401
    assert (await here.me(there.token("ann"))).status_code == 401


async def test_an_open_socket_is_closed_when_its_token_expires(there: Provider) -> None:
    async with oidc_server(there.issuer, **TERMS, oidc_leeway_s=0) as here:
        async with AsyncExitStack() as stack:
            for left_s in HASTY_S:  # on a busy machine the first ends before the socket is open
                token = there.token(f"hasty{left_s}")
                try:
                    socket = await stack.enter_async_context(socket_of(here, token))
                except websockets.ConnectionClosed:
                    continue
                break
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await asyncio.wait_for(socket.recv(), WAIT_S)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4401
        assert (await here.me(token)).status_code == 401


async def test_new_provider_keys_are_fetched_and_removed_keys_are_refused() -> None:
    now = 0.0
    with provider(PEOPLE) as first:
        old, port = first.token("ann"), httpx.URL(first.issuer).port
        keys = ProviderKeys(first.issuer, monotonic=lambda: now)
        async with oidc_server(first.issuer, keys=keys, **TERMS) as here:
            assert (await here.me(old)).status_code == 200
            unseen = first.token("olga")
            first.stop()
            with provider(PEOPLE, key="second", port=port or 0) as second:
                new = second.token("ann")
                assert (await here.me(new)).status_code == 401, "the provider was asked a moment ago"
                now += PAUSE_S
                assert (await here.me(new)).status_code == 200
                assert (await here.me(unseen)).status_code == 401


async def test_an_unreachable_provider_does_not_affect_the_servers_token() -> None:
    with provider(PEOPLE) as there:
        token = there.token("ann")
    async with oidc_server(there.issuer, **TERMS) as here:
        refused = await here.me(token)
        assert refused.status_code == 401
        assert "cannot be fetched" in refused.text
        assert (await who(here, "the-servers-own-token"))["role"] == "admin"


async def test_projects_that_do_not_fit_into_a_cookie_are_a_clear_refusal() -> None:
    projects = {f"group-{number:02}": f"{number:02}-{'a' * 60}" for number in range(60)}
    people = {"ann": {"preferred_username": "ann", "groups": list(projects)}}
    with provider(people) as there:
        async with (
            oidc_server(there.issuer, oidc_users="new", oidc_projects=projects) as here,
            httpx.AsyncClient(base_url=here.url, timeout=60) as browser,
        ):
            form = {"key": there.token("ann")}
            entered = await browser.post("/login", data=form, headers={"origin": here.url})
    assert entered.status_code == 401
    assert "more projects than fit" in entered.text, entered.text


async def test_a_browser_signed_in_with_a_token_is_refused_after_the_user_is_disabled(
    there: Provider, here: OidcServer
) -> None:
    token = there.token("ann")
    async with httpx.AsyncClient(base_url=here.url, timeout=60) as browser:
        origin = {"origin": here.url}
        entered = await browser.post("/login", data={"key": token}, headers=origin)
        assert entered.status_code == 303
        found = await browser.post("/graphql", json={"query": "{ me { name } }"}, headers=origin)
        assert found.json()["data"] == {"me": {"name": "ann"}}
        await here.accounts.disable_user(ROOT, "ann", None)
        refused = await browser.post("/graphql", json={"query": "{ me { name } }"}, headers=origin)
        assert refused.status_code == 401
