"""Authentication: tokens, cookies and login codes, and how invalid ones are refused."""

import asyncio
import hashlib
import hmac

import httpx
import pytest

from aliquot.api.authentication import CODE_S, COOKIE, COOKIE_S, TokenAuth
from aliquot_schema.errors import Unauthenticated, Unavailable
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller
from api_server import TOKEN, ApiServer

pytestmark = pytest.mark.anyio

QUERY = {"query": "{ agents { total_count } }"}


async def post(server: ApiServer, headers: dict[str, str | bytes]) -> httpx.Response:
    async with httpx.AsyncClient(verify=False, base_url=server.http.base_url) as client:
        return await client.post("/graphql", json=QUERY, headers=headers)


@pytest.mark.parametrize("value", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"BEARER  {TOKEN}"])
async def test_the_servers_token_is_accepted(server: ApiServer, value: str) -> None:
    assert (await post(server, {"authorization": value})).json()["data"] == {"agents": {"total_count": 2}}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": TOKEN},
        {"authorization": "Bearer"},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": f"Bearer {TOKEN[:-1]}"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": "Bearer \u00e4".encode()},
        {"cookie": f"{COOKIE}="},
        {"cookie": f"{COOKIE}={TOKEN}"},
        {"cookie": f"{COOKIE}=99999999999.{'0' * 64}"},
        {"cookie": f"{COOKIE}=-1.x"},
        {"cookie": f"{COOKIE}=.."},
        {"cookie": f"{COOKIE}=\u00e4.aZ.aZ".encode()},
    ],
)
async def test_requests_without_valid_credentials_get_401_and_instructions(
    server: ApiServer, headers: dict[str, str | bytes]
) -> None:
    response = await post(server, headers)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    [error] = response.json()["errors"]
    assert error["extensions"] == {"code": "unauthenticated"}
    assert "/run/token" in error["message"]
    assert TOKEN not in response.text
    assert server.cluster.callers == []


async def test_introspection_needs_the_token_too(server: ApiServer) -> None:
    async with httpx.AsyncClient(verify=False, base_url=server.http.base_url) as client:
        assert (await client.get("/graphql", params={"query": "{ __schema { types { name } } }"})).status_code == 401


async def test_a_one_time_address_signs_a_browser_in(server: ApiServer) -> None:
    made = (await server.http.post("/login-code")).json()
    assert made["path"] == f"/login?code={made['code']}"
    async with httpx.AsyncClient(verify=False, base_url=server.http.base_url) as browser:
        landed = await browser.get(made["path"])
        assert (landed.status_code, landed.headers["location"]) == (303, "/")
        cookie = landed.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
        assert TOKEN not in cookie
        assert (await browser.get("/")).status_code == 200
        assert (await browser.post("/graphql", json=QUERY)).json()["data"]
        again = await browser.get(made["path"])
        assert (again.status_code, again.headers["location"]) == (303, "/")
    async with httpx.AsyncClient(verify=False, base_url=server.http.base_url) as another:
        used = await another.get(made["path"])
        assert (used.status_code, used.headers["location"]) == (303, "/login?used")
        assert "set-cookie" not in used.headers
        page = await another.get(used.headers["location"])
        assert page.status_code == 200
        assert "This address has been used, or is older than 15 minutes. `aliquot open` prints a new one." in page.text
        assert 'name="key"' in page.text
        assert (await another.post("/graphql", json=QUERY)).status_code == 401


async def test_a_cookie_cannot_create_login_codes(server: ApiServer) -> None:
    cookies = {COOKIE: server.auth.redeem(server.auth.new_login_code())}
    async with httpx.AsyncClient(verify=False, base_url=server.http.base_url, cookies=cookies) as browser:
        assert (await browser.post("/login-code")).status_code == 401
        assert (await browser.get("/login-code")).status_code == 405


@pytest.mark.parametrize("code", ["", "x", "\x00"])
async def test_a_wrong_login_code_is_refused(server: ApiServer, code: str) -> None:
    async with httpx.AsyncClient(verify=False, base_url=server.http.base_url) as browser:
        response = await browser.get("/login", params={"code": code})
    assert (response.status_code, response.headers["location"]) == (303, "/login?used")
    assert "set-cookie" not in response.headers


async def test_a_code_is_not_in_the_log(server: ApiServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="aliquot.api.access")
    code = server.auth.new_login_code()
    await server.http.get("/login", params={"code": code})
    own = [record.getMessage() for record in caplog.records if record.name.startswith("aliquot")]
    assert any("/login 303" in line for line in own)
    assert not any(code in line for line in own)


def test_a_cookie_expires_and_is_invalid_after_a_token_change() -> None:
    now = 1000.0
    auth = TokenAuth(TOKEN, UserId("ada"), now=lambda: now)
    cookies = {COOKIE: auth.redeem(auth.new_login_code())}
    assert auth.of_headers(None, cookies).user == "ada"
    other = TokenAuth(TOKEN[::-1], UserId("ada"), now=lambda: now)
    with pytest.raises(Unauthenticated):
        other.of_headers(None, cookies)
    restarted = TokenAuth(TOKEN, UserId("ada"), now=lambda: now + COOKIE_S - 1)
    assert restarted.of_headers(None, cookies).user == "ada"
    later = TokenAuth(TOKEN, UserId("ada"), now=lambda: now + COOKIE_S)
    with pytest.raises(Unauthenticated):
        later.of_headers(None, cookies)


def test_the_time_in_a_cookie_is_signed() -> None:
    now = 1000.0
    auth, later = (TokenAuth(TOKEN, UserId("ada"), now=lambda at=at: at) for at in (now, now + 1))
    key, made, signature = auth.redeem(auth.new_login_code()).split(".")
    _, made_later, _ = later.redeem(later.new_login_code()).split(".")
    assert auth.of_headers(None, {COOKIE: f"{key}.{made}.{signature}"}).user == "ada"
    with pytest.raises(Unauthenticated):
        auth.of_headers(None, {COOKIE: f"{key}.{made_later}.{signature}"})


def test_a_cookie_of_a_server_whose_clock_is_ahead_is_valid() -> None:
    ahead, here = (TokenAuth(TOKEN, UserId("ada"), now=lambda at=at: at) for at in (1002.0, 1000.0))
    assert here.of_headers(None, {COOKIE: ahead.redeem(ahead.new_login_code())}).user == "ada"


@pytest.mark.parametrize("key", ["", ".key_1"])
def test_a_cookie_in_the_old_format_is_refused(key: str) -> None:
    end = 99_999_999_999
    words = " ".join(["cookie", str(end), *key.split(".")[1:]])
    signature = hmac.new(TOKEN.encode(), words.encode(), hashlib.sha256).hexdigest()
    with pytest.raises(Unauthenticated, match="No valid cookie was sent"):
        TokenAuth(TOKEN, UserId("ada")).of_headers(None, {COOKIE: f"{end}{key}.{signature}"})


def test_a_login_code_expires_after_15_minutes() -> None:
    now = [1000.0]
    auth = TokenAuth(TOKEN, UserId("ada"), now=lambda: now[0])
    code = auth.new_login_code()
    assert auth.redeem(code)
    now[0] += CODE_S
    with pytest.raises(Unauthenticated):
        auth.redeem(code)


def test_a_login_code_is_no_cookie_and_a_cookie_no_login_code() -> None:
    auth = TokenAuth(TOKEN, UserId("ada"))
    code = auth.new_login_code()
    with pytest.raises(Unauthenticated):
        auth.of_headers(None, {COOKIE: code})
    with pytest.raises(Unauthenticated):
        auth.redeem(auth.redeem(code))


async def test_a_one_time_address_of_another_server_signs_in_once_at_one_of_them(server: ApiServer) -> None:
    people = server.admin.state.people
    other = TokenAuth(TOKEN, UserId("ada"), people=people)
    code = other.new_login_code()
    async with httpx.AsyncClient(base_url=server.http.base_url) as browser:
        landed = await browser.get("/login", params={"code": code})
        assert (landed.status_code, landed.headers["location"]) == (303, "/")
        assert (await browser.post("/graphql", json=QUERY)).json()["data"]
    for auth in (server.auth, other, TokenAuth(TOKEN, UserId("ada"), people=people)):
        with pytest.raises(Unauthenticated):
            auth.redeem(code)


async def test_an_address_is_used_once_by_two_browsers_at_the_same_time(server: ApiServer) -> None:
    path = (await server.http.post("/login-code")).json()["path"]
    answers = await asyncio.gather(*(server.http.get(path) for _ in range(5)))
    assert sum("set-cookie" in answer.headers for answer in answers) == 1


async def test_an_address_stays_valid_while_its_use_cannot_be_recorded(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(caller: Caller, **_: str) -> bool:
        del caller
        raise Unavailable("the database cannot be reached")

    path = (await server.http.post("/login-code")).json()["path"]
    with monkeypatch.context() as patched:
        patched.setattr(server.admin.accounts, "end_sign_in", fail)
        answer = await server.http.get(path)
        assert (answer.status_code, "set-cookie" in answer.headers) == (503, False)
        assert "The address was not used: the database cannot be reached" in answer.text
    assert "set-cookie" in (await server.http.get(path)).headers


def test_a_short_token_is_refused() -> None:
    with pytest.raises(ValueError, match="16"):
        TokenAuth("short", UserId("ada"))


async def test_a_wrong_token_with_a_valid_cookie_is_refused(server: ApiServer) -> None:
    cookie = server.auth.redeem(server.auth.new_login_code())
    response = await post(server, {"authorization": "Bearer wrong", "cookie": f"{COOKIE}={cookie}"})
    assert response.status_code == 401
