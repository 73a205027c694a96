"""Apps at ports of the server's own host: isolation of their cookies, and access to them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx
import pytest
from msgspec.structs import replace
from starlette.types import Receive, Scope, Send

from aliquot.api.apps.addresses import AppName, AppPorts
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import ProjectId, UserId
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.states import KernelState, SessionState
from api_server import BEARER, ApiServer, Stage, listening, on_stage
from core_records import kernel, session
from session_sockets import PROJECT, user_with_key

pytestmark = pytest.mark.anyio

OPEN = "/sessions/ses_1/apps/lab"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Returns request headers, and sets cookies."""
    await receive()
    cookies = [b"own=1; Path=/", b"wide=1; Domain=127.0.0.1", b"aliquot_session=eve", b"p1_other=eve"]
    headers = [(b"set-cookie", cookie) for cookie in cookies]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    body = json.dumps([[name.decode(), value.decode()] for name, value in scope["headers"]]).encode()
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def stand(*, unused_s: float = 3600) -> AsyncIterator[tuple[ApiServer, int]]:
    """A server whose only app port is the second one, with a session of ada shared with its project."""
    stage = Stage()
    async with (
        listening(stage, lifespan="off") as port,
        listening(stage, lifespan="off") as extra,
        listening(app, lifespan="off") as own,
        on_stage(stage, port, apps=AppPorts([extra], port=port, unused_s=unused_s)) as server,
    ):
        server.streams.listener = own
        made = session(SessionState.RUNNING, owner=UserId("ada"))
        project = Quota(id=quota_id(QuotaScope.PROJECT, PROJECT), scope=QuotaScope.PROJECT, name=PROJECT)
        made = replace(
            made,
            project=ProjectId(PROJECT),
            spec=replace(made.spec, apps={"lab": 8888, "code": 8889}, shares_access=True),
        )

        def change(draft: UnitOfWork) -> None:
            draft.put(project, "changed")
            draft.put(made, "started")
            draft.put(replace(kernel(KernelState.RUNNING), started_us=1), "started")

        await server.admin.journal.transact(change, actor="test")
        yield server, extra


async def entered(server: ApiServer, path: str = OPEN) -> tuple[str, str]:
    """The entry address, and the cookie."""
    leading = await server.http.get(path, headers=BEARER)
    assert leading.status_code == 303, leading.text
    location = leading.headers["location"]
    async with httpx.AsyncClient() as http:
        answer = await http.get(location)
    assert answer.status_code == 303, answer.text
    assert answer.headers["clear-site-data"] == '"cache", "storage"'
    return location, answer.headers["set-cookie"].partition(";")[0]


async def test_an_app_gets_and_sets_cookies_of_its_own_port_alone() -> None:
    async with stand() as (server, extra):
        location, cookie = await entered(server)
        assert urlsplit(location).netloc == f"127.0.0.1:{extra}"
        assert cookie.startswith(f"p{extra}_aliquot_app=")
        given = f"{cookie}; p{extra}_theme=dark; p1_theme=light; theme=x; aliquot_session=a; p{extra}_aliquot_session=b"
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{extra}", headers={"cookie": given}) as http:
            answer = await http.get("/")
            assert dict(answer.json())["cookie"] == "theme=dark"
            assert answer.headers.get_list("set-cookie") == [f"p{extra}_own=1; Path=/", f"p{extra}_p1_other=eve"]
            foreign = await http.get("/", headers={"origin": f"http://127.0.0.1:{server.port}"})
            assert foreign.status_code == 403
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{extra}") as http:
            assert (await http.get("/", headers=BEARER)).status_code == 401
            assert (await http.get("/graphql", headers=BEARER)).status_code == 401


async def test_a_cookie_of_the_previous_app_at_a_port_is_refused() -> None:
    async with stand(unused_s=0) as (server, extra):
        _, old = await entered(server)
        _, new = await entered(server, "/sessions/ses_1/apps/code")
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{extra}") as http:
            assert (await http.get("/", headers={"cookie": old})).status_code == 401
            assert (await http.get("/", headers={"cookie": new})).status_code == 200


async def test_app_ports_are_refused_for_apps_of_other_users() -> None:
    async with stand() as (server, extra):
        for name, role in (("olga", "operator"), ("ben", "user")):
            _, key = await user_with_key(server, name, role, projects=[PROJECT])
            answer = await server.http.get(OPEN, headers={"authorization": f"Bearer {key}"})
            assert answer.status_code == 403, answer.text
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{extra}") as http:
            assert (await http.get("/")).status_code == 404


async def test_an_app_is_not_opened_at_the_port_of_an_app_in_use_and_that_is_no_opening_in_the_audit_log() -> None:
    async with stand() as (server, extra):
        _, cookie = await entered(server)
        refused = await server.http.get("/sessions/ses_1/apps/code", headers=BEARER)
        assert refused.status_code == 503
        assert [event.kind for event in server.admin.store.log].count("action.app_opened") == 1
        assert "(1 in apps-ports) is in use, 1 by you; cancel a session" in refused.text
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{extra}") as http:
            assert (await http.get("/", headers={"cookie": cookie})).status_code == 200


def test_a_port_is_taken_from_an_app_that_has_ended_or_was_not_used_for_long() -> None:
    ports, scope = AppPorts([1, 2], base="https://h.example", port=9, page_s=0), {"scheme": "http", "type": "http"}
    apps = [AppName(f"ses_{number}", "lab") for number in range(4)]
    ended: set[str] = set()

    def opened(app: AppName) -> str:
        ports.admit(app, ended.__contains__, owner="ada")
        return ports.origin(app, scope, "")

    first, second = opened(apps[0]), opened(apps[1])
    assert {first, second} == {"https://h.example:1", "https://h.example:2"}
    assert opened(apps[0]) == first
    with pytest.raises(Unavailable, match=r"\(2 in apps-ports\) is in use"):
        opened(apps[2])
    ended.add(apps[0].session_id)
    assert opened(apps[2]) == first
    assert ports.app_at({"server": ("h", int(first[-1]))}, "") == apps[2]
    ports = AppPorts([1, 2], base="https://h.example", port=9, unused_s=0)
    first, second = opened(apps[1]), opened(apps[2])
    assert opened(apps[1]) == first
    assert opened(apps[3]) == second
    ports, ended = AppPorts([1, 2], base="https://h.example", port=9, unused_s=0, page_s=0), {apps[1].session_id}
    running, over = opened(apps[0]), opened(apps[1])
    assert opened(apps[2]) == over, "that of an ended session first"
    assert opened(apps[0]) == running


def test_a_port_of_an_ended_session_with_an_open_page_is_given_to_no_other_app_of_its_user() -> None:
    ports, scope = AppPorts([1, 2], base="https://h.example", port=9), {"scheme": "http", "type": "http"}
    old, board, new = (AppName(name, "lab") for name in ("ses_old", "ses_board", "ses_new"))
    ended = {old.session_id}

    def opened(app: AppName, owner: str) -> str:
        ports.admit(app, ended.__contains__, owner=owner)
        return ports.origin(app, scope, "")

    first, _ = opened(old, "ada"), opened(board, "ada")
    with pytest.raises(Unavailable, match=r"in use, 2 by you; close the pages of services whose session has ended"):
        opened(new, "ada")
    assert opened(new, "ben") == first, "the pages of ada have no cookie for it"


def test_a_port_is_in_use_while_a_request_of_a_signed_in_user_is_open() -> None:
    ports, scope = AppPorts([1, 2], base="https://h.example", port=9, unused_s=0), {"scheme": "http", "type": "http"}
    lab, board, code, chat = (AppName("ses_1", name) for name in ("lab", "board", "code", "chat"))

    def opened(app: AppName) -> str:
        ports.admit(app, set[str]().__contains__, owner="ada")
        return ports.origin(app, scope, "")

    first, second = opened(lab), opened(board)
    assert ports.app_at({"server": ("h", int(first[-1]))}, "") == lab, "and no sign that lab is used"
    assert opened(code) == first
    with ports.used(board):
        assert opened(chat) == first
        with ports.used(chat), pytest.raises(Unavailable):
            opened(lab)
    assert opened(lab) in {first, second}


def test_a_user_with_two_ports_more_than_another_gives_up_the_one_unused_for_longest() -> None:
    ports = AppPorts([1, 2, 3], base="https://h.example", port=9)

    def opened(owner: str, name: str) -> str:
        app = AppName(f"ses_{owner}", name)
        ports.admit(app, set[str]().__contains__, owner=owner)
        return ports.origin(app, {"scheme": "http", "type": "http"}, "")

    lab, board, code = (opened("ada", name) for name in ("lab", "board", "code"))
    with ports.used(AppName("ses_ada", "lab")):
        pass
    with ports.used(AppName("ses_ada", "board")):
        assert opened("ben", "lab") == code, "lab was used later, and board is in use"
        with pytest.raises(Unavailable, match=r"in use, 1 by you; cancel a session"):
            opened("ben", "board")
        assert opened("eve", "lab") == lab
        with pytest.raises(Unavailable, match=r"in use, 0 by you; wait until one is free"):
            opened("dan", "lab")
    assert opened("ada", "board") == board


def test_a_port_of_a_user_with_too_many_is_taken_although_all_their_pages_are_open() -> None:
    ports, scope = AppPorts([1, 2], base="https://h.example", port=9), {"scheme": "http", "type": "http"}
    lab, board, other = AppName("ses_1", "lab"), AppName("ses_1", "board"), AppName("ses_2", "lab")
    for app in (lab, board):
        ports.admit(app, set[str]().__contains__, owner="ada")
    with ports.used(lab), ports.used(board):
        of_lab = ports.origin(lab, scope, "")
        ports.admit(other, set[str]().__contains__, owner="ben")
        assert ports.origin(other, scope, "") == of_lab
    assert ports.app_at({"server": ("h", int(of_lab[-1]))}, "") == other


async def test_a_page_whose_port_another_app_has_is_led_to_its_own_app() -> None:
    async with stand(unused_s=0) as (server, extra):
        _, old = await entered(server)
        await entered(server, "/sessions/ses_1/apps/code")
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{extra}", headers={"accept": "text/html"}) as http:
            led = await http.get("/tree?a=b", headers={"cookie": old})
            assert led.headers["location"] == f"http://127.0.0.1:{server.port}{OPEN}?next=%2Ftree%3Fa%3Db"
            forged = await http.get("/tree", headers={"cookie": old[:-1]})
            assert urlsplit(forged.headers["location"]).path == "/sessions/ses_1/apps/code"
