"""Rate limits over HTTP: a user over the limit gets 429 and a retry time; others are served."""

import httpx
import pytest

from aliquot_schema.identity.accounts import KeyScope, Role
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller
from aliquot_schema.views.accounts import NewApiKey, NewUser
from api_server import ApiServer, api_server, receive, send, sign_in

pytestmark = pytest.mark.anyio

ADMIN = Caller(user=UserId("ada"), request_id="req_test", role=Role.ADMIN)
QUERY = "{ agents(first: 10) { edges { node { id } } } }"
COST_MAX = 50


async def key_of(server: ApiServer, name: str, role: Role = Role.USER) -> str:
    accounts = server.admin.accounts
    await accounts.create_user(ADMIN, NewUser(name=name, role=role))
    return (await accounts.create_api_key(ADMIN, NewApiKey(user=name, name="x", scope=KeyScope.ADMIN))).secret


async def asks(server: ApiServer, secret: str) -> httpx.Response:
    headers = {"authorization": f"Bearer {secret}"}
    return await server.http.post("/graphql", json={"query": QUERY}, headers=headers)


async def test_a_user_over_the_rate_gets_429_and_retry_after(anyio_backend: object) -> None:
    async with api_server(cost_per_minute=COST_MAX) as server:
        bobs, eves = await key_of(server, "bob"), await key_of(server, "eve")
        olgas = await key_of(server, "olga", Role.OPERATOR)
        answers = [await asks(server, bobs) for _ in range(8)]
        refused = answers[-1]
        assert answers[0].status_code == 200
        assert refused.status_code == 429
        [error] = refused.json()["errors"]
        assert error["extensions"]["code"] == "rate_limited"
        assert 0 < error["extensions"]["retry_after"] <= int(refused.headers["retry-after"]) <= 60
        assert "data" not in refused.json()
        assert (await asks(server, eves)).status_code == 200
        assert {(await asks(server, olgas)).status_code for _ in range(8)} == {200}
        async with server.connect() as socket:
            await sign_in(socket, {"token": bobs})
            await send(socket, {"id": "1", "type": "subscribe", "payload": {"query": QUERY}})
            told = await receive(socket)
            assert told["type"] == "error"
            assert told["payload"][0]["extensions"]["code"] == "rate_limited"


async def test_keys_of_one_user_share_one_rate(anyio_backend: object) -> None:
    async with api_server(cost_per_minute=COST_MAX) as server:
        first, again = await key_of(server, "bob"), NewApiKey(user="bob", name="y", scope=KeyScope.SUBMIT)
        second = (await server.admin.accounts.create_api_key(ADMIN, again)).secret
        while (await asks(server, first)).status_code == 200:
            pass
        refused = await asks(server, second)
        assert refused.status_code == 429


async def test_the_servers_own_token_has_no_rate(anyio_backend: object) -> None:
    async with api_server(cost_per_minute=1) as server:
        for _ in range(3):
            await server.data(QUERY)
