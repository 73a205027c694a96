"""Limits of the REST API, and refusals before it is reached, all as RFC 9457 problems."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from aliquot.api import middleware
from aliquot.api.encoding import REQUEST_ID
from aliquot.api.limits import Limits
from aliquot.api.middleware import body_too_slow
from aliquot.service.scheduling.plan_applier import WAITED_US_MAX
from aliquot_schema.identity.accounts import KeyScope, Role
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller
from aliquot_schema.states import SessionState
from aliquot_schema.views.accounts import NewApiKey, NewUser
from oidc_server import OidcServer, oidc_server

pytestmark = pytest.mark.anyio

ISSUER = "https://id.example.org"
ROOT = Caller(user=UserId("root"), request_id="req_test", role=Role.ADMIN)
RUNS = "query ($run: String) { sessions(filter: { run_id: $run }) { total_count edges { node { owner run_id } } } }"
LARGE = f"{{ {' '.join(f'q{n}: queue(first: 100) {{ edges {{ node {{ position }} }} }}' for n in range(18))} }}"
"""Costs more than the rest of a minute's limit after one queue list."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def user_of(on: OidcServer, name: str, *projects: str) -> AsyncIterator[httpx.AsyncClient]:
    await on.accounts.create_user(ROOT, NewUser(name=name, role=Role.USER, projects=projects))
    made = await on.accounts.create_api_key(ROOT, NewApiKey(user=name, name="test", scope=KeyScope.SUBMIT))
    async with on.client(made.secret) as client:
        yield client


def is_problem(answer: httpx.Response, status: int, code: str) -> bool:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    told = answer.json()
    assert told["instance"] == answer.headers["x-request-id"]
    assert told["type"] == f"about:blank#{code}"
    return (answer.status_code, told["status"], told["code"]) == (status, status, code)


async def test_rest_requests_of_users_are_rate_limited_and_operators_are_exempt() -> None:
    async with oidc_server(ISSUER, limits=Limits(cost_per_minute=6_000)) as on, user_of(on, "ann") as ann:
        assert (await ann.get("/queue")).status_code == 200
        refused = await ann.get("/queue")
        assert is_problem(refused, 429, "rate_limited")
        assert int(refused.headers["retry-after"]) >= 1
        assert (await ann.get("/queue", params={"first": 1})).status_code == 200
        query = await ann.post("/graphql", json={"query": LARGE})
        assert query.status_code == 429, "one rate for both faces"
        async with on.client("the-servers-own-token") as root:
            assert {(await root.get("/queue")).status_code for _ in range(5)} == {200}


async def test_an_allocation_that_times_out_holds_no_devices_later() -> None:
    async with oidc_server(ISSUER, limits=Limits(request_s=2)) as on, user_of(on, "ann") as ann:
        refused = await ann.post("/cluster/gpu-allocate", json={"job_id": "job"})  # no pass runs here
        assert is_problem(refused, 504, "timeout")
        on.stage.clock.advance(WAITED_US_MAX / 1e6 + 1)
        await on.stage.advance()
        (session,) = on.stage.state.sessions.values()
        assert (session.state, on.stage.held()) == (SessionState.FAILED, {})


async def test_a_job_lists_its_hidden_fields() -> None:
    async with oidc_server(ISSUER) as on, user_of(on, "ann") as ann, user_of(on, "bob") as bob:
        made = (await ann.post("/queue/submit", json={"command": "secret", "run_id": "exp-7"})).json()
        assert made["hidden"] == []
        (seen,) = (await bob.get("/queue")).json()["jobs"]
        assert {"command", "run_id", "exit_code"} <= set(seen["hidden"])
        assert (seen["command"], seen["run_id"]) == ([], None)


async def test_filters_do_not_match_hidden_fields() -> None:
    async with oidc_server(ISSUER) as on, user_of(on, "ann", "cv") as ann, user_of(on, "bob", "cv") as bob:
        for project in ("default", "cv"):
            body = {"command": "true", "run_id": "exp-7", "project": project}
            assert (await ann.post("/queue/submit", json=body)).status_code == 200
        found = {}
        async with user_of(on, "eve") as eve, on.client("the-servers-own-token") as root:
            for name, client in {"ann": ann, "bob": bob, "eve": eve, "root": root}.items():
                answer = await client.post("/graphql", json={"query": RUNS, "variables": {"run": "exp-7"}})
                found[name] = answer.json()["data"]["sessions"]["total_count"]
        assert found == {"ann": 2, "bob": 1, "eve": 0, "root": 2}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example.org"}, 421),
        ({"origin": "https://evil.example.org"}, 403),
        ({"origin": "http://["}, 403),
        ({"host": "a/b"}, 400),
    ],
)
async def test_wrong_hosts_and_origins_are_refused_in_the_format_of_each_interface(
    headers: dict[str, str], status: int
) -> None:
    async with oidc_server(ISSUER) as on, on.client("the-servers-own-token") as root:
        for path in ("/queue", "/cluster/gpu-status", "/orchestrator/status", "/openapi.json"):
            assert is_problem(await root.get(path, headers=headers), status, "forbidden")
        assert (await root.get("/graphql", headers=headers)).json()["errors"][0]["extensions"]["code"] == "forbidden"


async def test_oversized_bodies_with_and_without_a_declared_size_get_413() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * 1000

    headers = {"content-type": "application/json"}
    async with oidc_server(ISSUER, limits=Limits(body_bytes=5000)) as on, on.client("the-servers-own-token") as root:
        for content in (b" " * 20_000, pieces()):
            assert is_problem(await root.post("/queue/submit", content=content, headers=headers), 413, "limit_exceeded")


async def test_a_client_that_reads_after_sending_everything_gets_the_413_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(middleware, "_LINGER_S", 60.0)  # on slow machines too
    head = "POST /queue/submit HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer the-servers-own-token\r\n"
    async with oidc_server(ISSUER, limits=Limits(body_bytes=5000)) as on:
        reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(on.url).port)
        writer.write(f"{head}content-length: 8000000\r\n\r\n".encode())
        for _ in range(80):
            writer.write(b" " * 100_000)
            await writer.drain()
        assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
        assert b"A body may have at most 5000 bytes." in await reader.read()
        writer.close()
        await writer.wait_closed()


async def test_a_slow_body_gets_408_as_a_problem() -> None:
    request = Request({"type": "http", "path": "/queue/submit", REQUEST_ID: "req_1", "headers": []})
    answer = body_too_slow(request, HTTPException(408))
    assert (answer.status_code, json.loads(bytes(answer.body))["code"]) == (408, "timeout")
    assert answer.headers["connection"] == "close"


async def test_unknown_paths_and_methods_are_problems() -> None:
    async with oidc_server(ISSUER) as on, on.client("the-servers-own-token") as root:
        assert is_problem(await root.get("/queue/no/such/place"), 404, "not_found")
        refused = await root.put("/queue/statistics", json={})
        assert is_problem(refused, 405, "method_not_allowed")
        assert "GET" in refused.headers["allow"]


async def test_head_requests_are_answered() -> None:
    async with oidc_server(ISSUER) as on, httpx.AsyncClient(base_url=on.url) as browser:
        entered = await browser.post("/login", data={"key": "the-servers-own-token"}, headers={"origin": on.url})
        assert entered.status_code == 303
        assert (await browser.head("/queue")).status_code == 200


async def test_requests_without_a_key_get_401() -> None:
    async with oidc_server(ISSUER) as on, httpx.AsyncClient(base_url=on.url) as anonymous:
        assert is_problem(await anonymous.get("/queue"), 401, "unauthenticated")


async def test_simultaneous_allocations_of_one_job_create_one_session() -> None:
    async with oidc_server(ISSUER) as on, user_of(on, "ann") as ann:
        passes = asyncio.create_task(on.stage.allocator.run())
        try:
            answers = await asyncio.gather(*(ann.post("/cluster/gpu-allocate", json={"job_id": "j"}) for _ in range(4)))
        finally:
            passes.cancel()
            await asyncio.gather(passes, return_exceptions=True)
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.json()["session_id"] for answer in answers}) == 1
