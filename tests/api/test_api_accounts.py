"""Users and keys over HTTP: created by an admin, used and revoked, also on open sockets and streams."""

import asyncio
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from aliquot.api.graphql.sockets import KEY_ENDED, RIGHTS_CHANGED
from api_server import ApiServer, receive, send, sign_in

pytestmark = pytest.mark.anyio

CREATE_USER = """mutation ($input: CreateUserInput!) { create_user(input: $input) {
  __typename ... on Error { code message } ... on UserChangeSuccess { user { name version } } } }"""
CREATE_KEY = """mutation ($input: CreateApiKeyInput!) { create_api_key(input: $input) {
  __typename ... on Error { code message } ... on CreateApiKeySuccess { secret api_key { id is_valid } } } }"""
REVOKE = """mutation ($id: ID!) { revoke_api_key(id: $id) {
  __typename ... on Error { code message } ... on RevokeApiKeySuccess { api_key { is_valid revoked_at } } } }"""
UPDATE = """mutation ($input: UpdateUserInput!) { update_user(input: $input) {
  __typename ... on Error { code message } ... on UserChangeSuccess { user { role disabled version } } } }"""
ME = "{ me { name role projects key_id } }"
FOLLOW = "subscription { queue_updates { event_number } }"


async def new_user(server: ApiServer, name: str, role: str = "user", **more: Any) -> None:
    made = await server.data(CREATE_USER, input={"name": name, "role": role, **more})
    assert made["create_user"]["__typename"] == "UserChangeSuccess", made


async def new_key(server: ApiServer, user: str, scope: str = "admin", **more: Any) -> tuple[str, str]:
    """Return (id, secret)."""
    made = await server.data(CREATE_KEY, input={"user": user, "name": "laptop", "scope": scope, **more})
    assert made["create_api_key"]["__typename"] == "CreateApiKeySuccess", made
    return made["create_api_key"]["api_key"]["id"], made["create_api_key"]["secret"]


def browser(server: ApiServer, secret: str | None = None) -> httpx.AsyncClient:
    headers = {} if secret is None else {"authorization": f"Bearer {secret}"}
    return httpx.AsyncClient(verify=False, base_url=server.http.base_url, headers=headers, timeout=60)


async def asks(client: httpx.AsyncClient, query: str, /, **variables: Any) -> httpx.Response:
    return await client.post("/graphql", json={"query": query, "variables": variables})


async def test_the_servers_token_acts_as_the_first_admin(server: ApiServer) -> None:
    assert (await server.data(ME))["me"] == {"name": "ada", "role": "admin", "projects": [], "key_id": None}


@pytest.mark.parametrize(
    ("role", "scope", "acts_as"),
    [
        ("user", "admin", "user"),
        ("admin", "read", "viewer"),
        ("operator", "submit", "user"),
        ("viewer", "admin", "viewer"),
    ],
)
async def test_a_key_acts_as_its_user_and_within_its_scope(
    server: ApiServer, role: str, scope: str, acts_as: str
) -> None:
    await new_user(server, "bob", role, projects=["vision"])
    key_id, secret = await new_key(server, "bob", scope)
    async with browser(server, secret) as client:
        me = (await asks(client, ME)).json()["data"]["me"]
    assert me == {"name": "bob", "role": acts_as, "projects": ["vision"], "key_id": key_id}


async def test_the_secret_is_shown_once_and_kept_nowhere(server: ApiServer) -> None:
    await new_user(server, "bob")
    key_id, secret = await new_key(server, "bob")
    hidden = secret.removeprefix(f"{key_id}.")
    assert len(hidden) >= 43
    listed = (await server.http.post("/graphql", json={"query": "{ api_keys { id name user scope is_valid } }"})).text
    assert key_id in listed
    assert hidden not in listed
    assert hidden not in repr(vars(server.admin.journal._store))


@pytest.mark.parametrize(
    "bad", ["{key}.", "{key}", "{key}.x", "{secret}x", "key_0.{tail}", ".{tail}", "{secret}\u00e4"]
)
async def test_malformed_keys_are_refused(server: ApiServer, bad: str) -> None:
    await new_user(server, "bob")
    key_id, secret = await new_key(server, "bob")
    text = bad.format(key=key_id, secret=secret, tail=secret.partition(".")[2])
    async with browser(server) as client:
        answer = await client.post("/graphql", json={"query": ME}, headers={"authorization": f"Bearer {text}".encode()})
    assert answer.status_code == 401
    assert secret not in answer.text


async def test_a_revoked_key_is_refused_immediately(server: ApiServer) -> None:
    await new_user(server, "bob")
    key_id, secret = await new_key(server, "bob")
    async with browser(server, secret) as client:
        assert (await asks(client, ME)).status_code == 200
        revoked = await server.data(REVOKE, id=key_id)
        assert revoked["revoke_api_key"]["api_key"]["is_valid"] is False
        assert (await asks(client, ME)).status_code == 401
        assert (await client.post("/login-code")).status_code == 401
    again = await server.data(REVOKE, id=key_id)
    assert again["revoke_api_key"]["api_key"] == revoked["revoke_api_key"]["api_key"]


async def test_a_user_can_revoke_only_own_keys(server: ApiServer) -> None:
    await new_user(server, "bob")
    await new_user(server, "eve")
    key_id, secret = await new_key(server, "bob")
    _, eves = await new_key(server, "eve")
    async with browser(server, eves) as client:
        assert (await asks(client, REVOKE, id=key_id)).json()["data"]["revoke_api_key"]["code"] == "not_found"
    async with browser(server, secret) as client:
        assert (await asks(client, "{ api_keys { user } }")).json()["data"]["api_keys"] == [{"user": "bob"}]
        done = (await asks(client, REVOKE, id=key_id)).json()["data"]["revoke_api_key"]
        assert done["__typename"] == "RevokeApiKeySuccess"
        assert (await asks(client, ME)).status_code == 401


async def test_keys_of_a_disabled_user_are_refused_until_the_user_is_enabled_again(server: ApiServer) -> None:
    await new_user(server, "bob")
    _, secret = await new_key(server, "bob")
    async with browser(server, secret) as client:
        await server.data('mutation { disable_user(input: {name: "bob"}) { __typename } }')
        assert (await asks(client, ME)).status_code == 401
        refused = await server.data(CREATE_KEY, input={"user": "bob", "name": "x"})
        assert refused["create_api_key"]["code"] == "state_conflict"
        await server.data(UPDATE, input={"name": "bob", "disabled": False})
        assert (await asks(client, ME)).status_code == 200


async def test_an_expired_key_is_refused(server: ApiServer) -> None:
    await new_user(server, "bob")
    _, secret = await new_key(server, "bob", expires_in=0.001)  # the clock is at 1970
    async with browser(server, secret) as client:
        assert (await asks(client, ME)).status_code == 401


async def test_the_cookie_of_a_key_ends_with_the_key(server: ApiServer) -> None:
    await new_user(server, "bob")
    key_id, secret = await new_key(server, "bob")
    async with browser(server, secret) as client:
        path = (await client.post("/login-code")).json()["path"]
    async with browser(server) as client:
        assert (await client.get(path)).status_code == 303
        assert (await asks(client, ME)).json()["data"]["me"]["name"] == "bob"
        await server.data(REVOKE, id=key_id)
        assert (await asks(client, ME)).status_code == 401


async def test_the_sign_in_page_takes_a_key(server: ApiServer) -> None:
    await new_user(server, "bob")
    _, secret = await new_key(server, "bob")
    async with browser(server) as client:
        page = await client.get("/login")
        assert (page.status_code, 'name="key"' in page.text) == (200, True)
        assert "form-action 'self'" in page.headers["content-security-policy"]
        wrong = await client.post("/login", data={"key": f"{secret}x"})
        assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
        assert secret not in wrong.text
        assert (await client.post("/login", data={"key": f" {secret} "})).status_code == 303
        assert (await asks(client, ME)).json()["data"]["me"]["name"] == "bob"
        foreign = {"origin": "http://elsewhere.example"}
        assert (await client.post("/login", data={"key": secret}, headers=foreign)).status_code == 403


async def test_the_sign_in_page_leads_back_to_the_page_that_needed_it(server: ApiServer) -> None:
    async with browser(server) as client:
        page = await client.get("/login", params={"next": "/sessions/ses_1/apps/lab?next=%2Ftree"})
        address = "/login?next=%2Fsessions%2Fses_1%2Fapps%2Flab%3Fnext%3D%252Ftree"
        assert f'action="{address}"' in page.text
        assert f'action="{address}"' in (await client.post(address, data={"key": "wrong"})).text
        await new_user(server, "bob")
        _, secret = await new_key(server, "bob")
        signed_in = await client.post(address, data={"key": secret})
        # A page, not a redirect: an app's origin is not allowed by `form-action`.
        assert (signed_in.status_code, "set-cookie" in signed_in.headers) == (200, True)
        assert signed_in.headers["refresh"] == "0;url=/sessions/ses_1/apps/lab?next=%2Ftree"


@pytest.mark.parametrize("path", ["https://evil.example", "//evil.example", "/\\evil", "/a\r\nb", "", "/" + "a" * 3000])
async def test_the_sign_in_page_leads_to_no_other_site(server: ApiServer, path: str) -> None:
    await new_user(server, "bob")
    _, secret = await new_key(server, "bob")
    async with browser(server) as client:
        assert 'action="/login"' in (await client.get("/login", params={"next": path})).text
        signed_in = await client.post("/login", params={"next": path}, data={"key": secret})
        assert (signed_in.status_code, signed_in.headers["location"]) == (303, "/")


async def test_a_cookie_cannot_be_moved_to_another_key(server: ApiServer) -> None:
    await new_user(server, "bob")
    mine, secret = await new_key(server, "bob")
    other, _ = await new_key(server, "bob")
    cookie = server.auth.cookie_for(secret)
    async with browser(server) as client:
        for changed in (cookie.replace(mine, other), cookie.replace(mine, "")):
            answer = await client.post("/graphql", json={"query": ME}, headers={"cookie": f"aliquot_session={changed}"})
            assert answer.status_code == 401


@pytest.mark.parametrize(("change", "code"), [("revoke", KEY_ENDED), ("disable", KEY_ENDED), ("role", RIGHTS_CHANGED)])
async def test_an_open_socket_is_closed_when_its_key_or_role_ends(server: ApiServer, change: str, code: int) -> None:
    await new_user(server, "bob")
    key_id, secret = await new_key(server, "bob")
    async with server.connect() as bobs, server.connect() as adas:
        await sign_in(bobs, {"token": secret})
        await sign_in(adas)
        for socket in (bobs, adas):
            await send(socket, {"id": "1", "type": "subscribe", "payload": {"query": FOLLOW}})
        if change == "revoke":
            await server.data(REVOKE, id=key_id)
        else:
            what = {"disabled": True} if change == "disable" else {"role": "viewer"}
            await server.data(UPDATE, input={"name": "bob", **what})
        with pytest.raises(ConnectionClosed) as closed:
            async with asyncio.timeout(30):
                await bobs.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == code
        await send(adas, {"type": "ping"})
        assert (await receive(adas))["type"] == "pong"


async def test_an_event_stream_sends_no_events_after_its_key_is_revoked(server: ApiServer) -> None:
    await new_user(server, "bob")
    key_id, secret = await new_key(server, "bob")
    headers = {"accept": "text/event-stream"}
    asked = '{command: {shell: "true"}, slots: [{slot: "cpu", amount: "1"}]}'
    submit = f"mutation {{ create_session(input: {asked}) {{ __typename }} }}"
    async with (
        browser(server, secret) as client,
        client.stream("POST", "/graphql", json={"query": FOLLOW}, headers=headers) as stream,
    ):
        await server.watcher.started.wait()
        await server.data(submit)
        lines = stream.aiter_lines()
        async with asyncio.timeout(30):
            assert await anext(lines) == "event: next"
            await server.data(REVOKE, id=key_id)
            await server.data(submit)
            rest = [line async for line in lines]
    assert sum(line.startswith("data: {") for line in rest) == 1  # the one in flight


async def test_only_admins_make_users_and_keys(server: ApiServer) -> None:
    await new_user(server, "olga", "operator")
    _, secret = await new_key(server, "olga")
    async with browser(server, secret) as client:
        made = (await asks(client, CREATE_USER, input={"name": "x"})).json()["data"]["create_user"]
        key = (await asks(client, CREATE_KEY, input={"user": "olga", "name": "x"})).json()["data"]["create_api_key"]
        raised = (await asks(client, UPDATE, input={"name": "olga", "role": "admin"})).json()["data"]["update_user"]
        assert {made["code"], key["code"], raised["code"]} == {"forbidden"}
        others = (await asks(client, '{ api_keys(user: "ada") { id } }')).json()
        assert others["errors"][0]["extensions"]["code"] == "forbidden"
        assert (await asks(client, "{ users { name role } }")).json()["data"]["users"] == [
            {"name": "olga", "role": "operator"}
        ]


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "system:x"},
        {"name": "a/b"},
        {"name": "x" * 65},
        {"name": "\u00e4"},
        {"name": "ok", "unix_name": "root"},
        {"name": "ok", "unix_name": "a b"},
        {"name": "ok", "projects": ["a/b"]},
        {"name": "ok", "projects": ["default"]},
    ],
)
async def test_invalid_user_names_are_refused(server: ApiServer, fields: dict[str, Any]) -> None:
    made = (await server.data(CREATE_USER, input=fields))["create_user"]
    assert made["code"] == "invalid_request", made


async def test_duplicate_user_names_and_stale_versions_are_refused(server: ApiServer) -> None:
    await new_user(server, "bob")
    assert (await server.data(CREATE_USER, input={"name": "bob"}))["create_user"]["code"] == "state_conflict"
    stale = await server.data(UPDATE, input={"name": "bob", "role": "viewer", "expected_version": 7})
    assert stale["update_user"]["code"] == "version_conflict"
    unknown = await server.data(UPDATE, input={"name": "nobody", "role": "viewer"})
    assert unknown["update_user"]["code"] == "not_found"
