"""Apps of sessions: the requests they get, limits on their answers, and access by origin."""

import json
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from aliquot.api.apps.headers import HEADER_BYTES_MAX, is_host_only, to_browser
from aliquot.api.apps.proxy import MESSAGE_BYTES_MAX
from aliquot.service.lifecycle.launch_orders import AppTokens
from aliquot_schema.ids import KernelId
from aliquot_schema.orchestration import Action
from api_server import BEARER, TOKEN
from app_origins import OPEN, REVOKE, app_server, at, cookie, host, raw, running_session, socket, ticket, user_with_key

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """The event loop of the server."""
    return "asyncio", {"use_uvloop": True}


PAGE = {"accept": "text/html"}


async def test_app_requests_carry_no_server_credentials_and_are_audited() -> None:
    async with app_server() as server:
        given = f"{await cookie(server)}; own=1; aliquot_session=a; __Host-aliquot_session=b; theme=dark"
        headers = {**BEARER, "cookie": given, "x-forwarded-for": "1.2.3.4", "connection": "x-hop", "x-hop": "1"}
        answer = await at(server, "/a/%2e%2e//b;c?q=%20", method="POST", content=b"body", headers=headers)
        assert answer.status_code == 201
        got = answer.json()
        assert (got["path"], got["method"], got["body"]) == ("/a/%2e%2e//b;c?q=%20", "POST", "body")
        names = dict(got["headers"])
        assert names["cookie"] == "own=1; theme=dark"
        assert names["host"] == names["x-forwarded-host"] == host(server)
        assert names["authorization"] == f"Bearer {AppTokens(TOKEN.encode()).of(KernelId('ses_1.1.0'))}"
        assert not {"x-forwarded-for", "x-hop"} & names.keys()
        assert TOKEN not in answer.text
        assert answer.headers.get_list("set-cookie") == ["own=1; Path=/"]
        assert not {"clear-site-data", "x-own"} & answer.headers.keys()
        assert answer.headers["x-kept"] == "2"
        assert answer.headers["content-security-policy"] == "frame-ancestors 'self'"
        action = server.admin.state.find(Action, "stream/ada")
        assert action is not None
        assert (action.facts["app"], action.facts["port"]) == ("lab", "8888")


async def test_a_chunked_body_is_passed_to_the_app() -> None:
    async with app_server() as server:

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(40):
                yield b"x" * 50_000

        answer = await at(server, "/", method="PUT", content=pieces(), headers={"cookie": await cookie(server)})
        assert len(answer.json()["body"]) == 2_000_000


@pytest.mark.parametrize("role", ["viewer", "user"])
async def test_only_the_owner_and_operators_get_a_ticket(role: str) -> None:
    async with app_server() as server:
        _, headers = await user_with_key(server, "eve", role)
        assert (await ticket(server, headers)).status_code == 403
        assert (await ticket(server, {})).status_code == 401
        assert (await ticket(server, {"cookie": "aliquot_session=stolen"})).status_code == 401
        assert (await ticket(server, path="/sessions/ses_1/apps/none")).status_code == 404
        assert (await ticket(server, path="/sessions/ses_2/apps/lab")).status_code == 404


async def test_a_viewer_opens_no_app_of_its_own_session() -> None:
    async with app_server() as server:
        _, headers = await user_with_key(server, "eve", "viewer")
        await running_session(server, owner="eve")
        assert (await ticket(server, headers)).status_code == 403


async def test_a_ticket_works_once_at_its_own_app_alone() -> None:
    async with app_server() as server:
        parts = urlsplit((await ticket(server)).headers["location"])
        assert parts.netloc == host(server)
        path = f"{parts.path}?{parts.query}"
        for name in ("board-1", "lab-2", "lab-1--1"):
            assert (await at(server, path, name)).status_code == 403
        assert (await at(server, path + "x", "lab-1")).status_code in (303, 403)
        assert (await at(server, path.replace("ticket=", "ticket=x"))).status_code == 403
        parts = urlsplit((await ticket(server)).headers["location"])
        path = f"{parts.path}?{parts.query}"
        assert (await at(server, path, method="HEAD")).status_code == 405
        assert (await at(server, path)).status_code == 303
        assert (await at(server, path)).status_code == 403


@pytest.mark.parametrize("following", ["//evil.example/", "/\\evil.example", "https://evil.example/", "/.aliquot/open"])
async def test_a_ticket_does_not_redirect_to_other_sites(following: str) -> None:
    async with app_server() as server:
        async with httpx.AsyncClient(verify=False, base_url=f"http://127.0.0.1:{server.port}") as http:
            answer = await http.get(OPEN, params={"next": following}, headers=BEARER)
        parts = urlsplit(answer.headers["location"])
        assert parts.netloc == host(server)
        assert (await at(server, f"{parts.path}?{parts.query}")).headers["location"] == "/"


async def test_a_cookie_opens_its_own_app_alone_and_no_part_of_the_server() -> None:
    async with app_server() as server:
        own = await cookie(server)
        for name in ("board-1", "lab-2"):
            assert (await at(server, "/", name, headers={"cookie": own})).status_code == 401
        value = own.partition("=")[2]
        async with httpx.AsyncClient(verify=False, base_url=f"http://127.0.0.1:{server.port}") as http:
            for stolen in (own, f"aliquot_session={value}"):
                answer = await http.post("/graphql", json={"query": "{ me { name } }"}, headers={"cookie": stolen})
                assert answer.status_code == 401
        mine = server.auth.cookie_for(TOKEN)
        for stolen in (f"aliquot_app={mine}", f"aliquot_session={mine}", f"{own}; aliquot_app={mine}", f"{own}x"):
            assert (await at(server, "/", headers={"cookie": stolen})).status_code == 401


async def test_an_app_cookie_is_invalid_after_its_key_is_revoked() -> None:
    async with app_server() as server:
        key_id, headers = await user_with_key(server, "eve", "user")
        await running_session(server, owner="eve")
        own = await cookie(server, headers)
        assert (await at(server, "/", headers={"cookie": own})).status_code == 201
        await server.data(REVOKE, id=key_id)
        assert (await at(server, "/", headers={"cookie": own})).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://board-1.apps.localhost"},
        {"origin": "http://127.0.0.1"},
        {"origin": "null"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"},
    ],
)
async def test_app_requests_from_other_origins_are_refused(headers: dict[str, str]) -> None:
    async with app_server() as server:
        own = {"cookie": await cookie(server)}
        assert (await at(server, "/", headers={**own, **headers})).status_code == 403
        assert (
            await at(server, "/", method="POST", headers={**own, "origin": f"http://{host(server)}"})
        ).status_code == 201
        with pytest.raises(InvalidStatus) as refused:
            async with socket(server, {**own, **headers}):
                pass
        assert refused.value.response.status_code == 403


@pytest.mark.parametrize(
    "name",
    [
        "lab-1.apps.localhost.evil.example",
        "x.lab-1.apps.localhost",
        "apps.localhost",
        "lab-1.apps.localhost.",
        "-1.apps.localhost",
        "lab-1.apps.localhost:99999",
    ],
)
async def test_requests_with_other_host_names_do_not_reach_an_app(name: str) -> None:
    async with app_server() as server:
        own = await cookie(server)
        async with httpx.AsyncClient(verify=False, base_url=f"http://127.0.0.1:{server.port}") as http:
            answer = await http.get("/", headers={"host": name, "cookie": own})
            assert answer.status_code in (404, 421)
            assert "x-kept" not in answer.headers
        both = f"host: {host(server)}\r\nhost: 127.0.0.1\r\ncookie: {own}\r\n\r\n"
        assert await raw(server, f"GET / HTTP/1.1\r\n{both}") == 400


async def test_server_paths_are_not_served_at_an_app_origin() -> None:
    async with app_server() as server:
        own = await cookie(server)
        for path in ("/graphql", "/login", "/sessions/ses_1/stream", "/servers/outputs", "/healthz"):
            assert (await at(server, path, headers={"cookie": own})).status_code == 201
            assert (await at(server, path, headers=BEARER)).status_code == 401
        assert (await at(server, "/.aliquot/other", headers={"cookie": own})).status_code == 404


async def test_headers_that_are_too_large_or_contradict_each_other_are_refused() -> None:
    async with app_server() as server:
        own = {"cookie": await cookie(server)}
        many = {f"x-{number}": "x" * 4000 for number in range(HEADER_BYTES_MAX // 4000 + 1)}
        assert (await at(server, "/", headers={**own, **many})).status_code in (400, 431)
        head = f"POST / HTTP/1.1\r\nhost: {host(server)}\r\ncookie: {own['cookie']}\r\n"
        assert await raw(server, f"{head}content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n") == 400
        assert await raw(server, f"{head}content-length: {2**40}\r\n\r\n") == 413


async def test_a_websocket_passes_both_ways_without_the_servers_credentials() -> None:
    async with app_server() as server:
        headers = {"cookie": f"{await cookie(server)}; own=1", **BEARER, "origin": f"http://{host(server)}"}
        async with socket(server, headers, subprotocols=["v1.kernel"]) as browser:
            got = json.loads(await browser.recv())
            assert browser.subprotocol == "v1.kernel"
            assert browser.response is not None
            assert browser.response.headers.get_all("set-cookie") == ["own=2; Path=/"]
            assert (got["cookie"], got["host"]) == ("own=1", host(server))
            assert TOKEN not in got["authorization"]
            await browser.send("text")
            assert await browser.recv() == "text"
            await browser.send(b"\x00" * 1_000_000)
            assert await browser.recv() == b"\x00" * 1_000_000
            await browser.send("leave")
            with pytest.raises(ConnectionClosed) as closed:
                await browser.recv()
            assert closed.value.rcvd is not None
            assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4007, "enough")
        for name in ("board-1", "lab-2"):
            with pytest.raises(InvalidStatus):
                async with socket(server, {"cookie": headers["cookie"]}, name):
                    pass


async def test_frames_that_are_too_large_end_a_websocket() -> None:
    async with app_server() as server:
        headers = {"cookie": await cookie(server)}
        async with socket(server, headers, max_size=None) as browser:
            await browser.recv()
            await browser.send("flood")
            with pytest.raises(ConnectionClosed):
                await browser.recv()
        async with socket(server, headers) as browser:
            await browser.recv()
            with pytest.raises(ConnectionClosed) as closed:
                await browser.send(b"x" * (MESSAGE_BYTES_MAX + 1))
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009


async def test_a_websocket_is_closed_when_its_key_is_revoked() -> None:
    async with app_server() as server:
        key_id, headers = await user_with_key(server, "eve", "user")
        await running_session(server, owner="eve")
        async with socket(server, {"cookie": await cookie(server, headers)}) as browser:
            await browser.recv()
            await server.data(REVOKE, id=key_id)
            with pytest.raises(ConnectionClosed) as closed:
                await browser.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4401


async def test_app_connections_per_user_are_limited() -> None:
    async with app_server(session_streams_per_user=1) as server:
        headers = {"cookie": await cookie(server)}
        async with socket(server, headers) as browser:
            await browser.recv()
            assert (await at(server, "/", headers=headers)).status_code == 429


async def test_anonymous_app_requests_are_redirected_to_the_server_for_sign_in() -> None:
    async with app_server() as server:
        answer = await at(server, "/lab/tree?x=1", headers=PAGE)
        assert answer.status_code == 303
        assert answer.headers["location"] == (
            f"http://127.0.0.1:{server.port}/sessions/ses_1/apps/lab?next=%2Flab%2Ftree%3Fx%3D1"
        )
        path = urlsplit(answer.headers["location"])
        # A strict cookie is not sent on this request; the answered page redirects here again.
        again = await ticket(server, PAGE, f"{path.path}?{path.query}")
        assert again.headers["refresh"].startswith("0;url=/sessions/ses_1/apps/lab?next=")
        address = again.headers["refresh"].removeprefix("0;url=")
        sign_in = (await ticket(server, PAGE, address)).headers["location"]
        assert sign_in == "/login?next=%2Fsessions%2Fses_1%2Fapps%2Flab%3Fnext%3D%252Flab%252Ftree%253Fx%253D1"


async def test_a_cookie_for_another_app_does_not_change_which_app_is_opened() -> None:
    """An app may set one for the domain of all apps."""
    async with app_server() as server:
        planted = {**PAGE, "cookie": await cookie(server)}
        answer = await at(server, "/", "board-2", headers=planted)
        assert urlsplit(answer.headers["location"]).path == "/sessions/ses_2/apps/board"


@pytest.mark.parametrize(
    ("value", "is_kept"),
    [
        (b"a=1", True),
        (b"a=1; Path=/; HttpOnly", True),
        (b"a=1; domain=x.example", False),
        (b"a=1;DOMAIN =x.example", False),
        (b"ALIQUOT_session=1", False),
        (b"__Host-aliquot_app=1; Secure", False),
        (b" aliquot_app=1", False),
    ],
)
def test_cookies_for_other_hosts_and_of_the_server_are_dropped(value: bytes, is_kept: bool) -> None:
    assert is_host_only(value) == is_kept
    assert to_browser([(b"Set-Cookie", value)])[:-1] == [(b"set-cookie", value)] * is_kept


@pytest.mark.parametrize("value", [b"a=1;\x01Domain=x.example", b"\x1faliquot_app=1"])
def test_control_characters_do_not_hide_what_a_cookie_is(value: bytes) -> None:
    assert [name for name, _ in to_browser([(b"Set-Cookie", value)])] == [b"content-security-policy"]
