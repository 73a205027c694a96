"""Signing out ends the sign-in on the server: no copy of the cookie is valid afterwards."""

from typing import Final

import httpx
import pytest
from websockets.asyncio.client import connect

from aliquot.api.authentication import COOKIE, TokenAuth
from aliquot_schema.errors import Unauthenticated, Unavailable
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller
from api_server import TOKEN, ApiServer, send

pytestmark = pytest.mark.anyio

ME: Final = {"query": "{ me { name } }"}
LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def new_cookie(server: ApiServer) -> str:
    return server.auth.redeem(server.auth.new_login_code())


async def post(server: ApiServer, path: str, cookie: str | None) -> httpx.Response:
    cookies = {} if cookie is None else {COOKIE: cookie}
    async with httpx.AsyncClient(verify=False, base_url=server.http.base_url, cookies=cookies) as browser:
        return await browser.post(path, json=ME if path == "/graphql" else None)


async def test_a_copy_of_the_cookie_is_refused_after_signing_out(server: ApiServer) -> None:
    mine, other = new_cookie(server), new_cookie(server)
    assert (await post(server, "/graphql", mine)).status_code == 200

    answer = await post(server, "/logout", mine)

    assert answer.status_code == 204
    assert f'{COOKIE}=""; ' in answer.headers["set-cookie"]
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert (await post(server, "/graphql", mine)).status_code == 401
    # Another sign-in of the same user, in the same second, stays valid.
    assert (await post(server, "/graphql", other)).status_code == 200


async def test_another_encoding_of_a_signed_out_cookie_is_refused(server: ApiServer) -> None:
    cookie = new_cookie(server)
    # A signature's last character has two unused bits.
    spelling = cookie[:-1] + LETTERS[LETTERS.index(cookie[-1]) ^ 1]
    assert (await post(server, "/graphql", spelling)).status_code == 200
    await post(server, "/logout", cookie)
    assert (await post(server, "/graphql", spelling)).status_code == 401


async def test_a_signed_out_cookie_is_refused_by_other_servers(server: ApiServer) -> None:
    cookie = new_cookie(server)
    await post(server, "/logout", cookie)
    # Both know only the event log.
    next_one = TokenAuth(TOKEN, UserId("ada"), people=server.admin.state.people)
    with pytest.raises(Unauthenticated):
        next_one.of_headers(None, {COOKIE: cookie})


async def test_signing_out_twice_or_without_a_cookie_changes_nothing(server: ApiServer) -> None:
    cookie = new_cookie(server)
    before = server.admin.state.revision
    for sent in (cookie, cookie, None, "nonsense"):
        assert (await post(server, "/logout", sent)).status_code == 204
    assert server.admin.state.revision == before + 1
    async with httpx.AsyncClient(verify=False, base_url=server.http.base_url) as browser:
        assert (await browser.get("/logout")).status_code == 405


async def test_a_sign_out_request_from_another_origin_is_refused(server: ApiServer) -> None:
    cookie = new_cookie(server)
    async with httpx.AsyncClient(verify=False, base_url=server.http.base_url, cookies={COOKIE: cookie}) as browser:
        answer = await browser.post("/logout", headers={"origin": "https://evil.example"})
    assert answer.status_code == 403
    assert (await post(server, "/graphql", cookie)).status_code == 200


async def test_open_sockets_of_the_cookie_are_closed(server: ApiServer) -> None:
    cookie = new_cookie(server)
    address = f"ws://127.0.0.1:{server.port}/graphql"
    headers = {"cookie": f"{COOKIE}={cookie}"}
    async with connect(address, subprotocols=["graphql-transport-ws"], additional_headers=headers) as socket:  # type: ignore[list-item]
        await send(socket, {"type": "connection_init"})
        assert "connection_ack" in str(await socket.recv())
        await post(server, "/logout", cookie)
        await socket.wait_closed()


async def test_ended_sign_ins_are_not_listed_as_keys(server: ApiServer) -> None:
    await post(server, "/logout", new_cookie(server))
    answer = await server.http.post("/graphql", json={"query": "{ api_keys { id } }"})
    assert answer.json()["data"] == {"api_keys": []}


async def test_a_sign_out_that_cannot_be_recorded_returns_503(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: Caller) -> None:
        raise Unavailable("the database does not answer; try again")

    cookie = new_cookie(server)
    monkeypatch.setattr(server.admin.accounts, "end_sign_in", fail)
    answer = await post(server, "/logout", cookie)
    assert answer.status_code == 503
    assert "You are still signed in" in answer.text
    assert "set-cookie" not in answer.headers
