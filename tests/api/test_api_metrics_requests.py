"""Request metrics by face, kind and outcome, and open subscriptions."""

import asyncio
import logging
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from websockets.asyncio.client import connect

from aliquot.api.graphql.sockets import SocketAdapter
from aliquot.api.job_output import OUTPUTS_PATH
from aliquot.api.metrics.request_counts import RequestCounts
from aliquot.api.middleware import RequestLog
from aliquot_schema.identity.accounts import KeyScope, Role
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller
from aliquot_schema.views.accounts import NewApiKey, NewUser
from api_server import BEARER, SUBPROTOCOL, sign_in, subscribe
from metrics_cluster import Scraped, scraped

pytestmark = pytest.mark.anyio

AGENTS = "{ agents(first: 1) { edges { node { id } } } }"
CANCEL = 'mutation { cancel_session(input: {id: "ses_1"}) { __typename } }'
UPDATES = "subscription ($after: BigInt) { queue_updates(after: $after) { event_number } }"
EVENTS = {"accept": "text/event-stream"}
ROOT = Caller(user=UserId("root"), request_id="req_test", role=Role.ADMIN)


async def ask(server: Scraped, body: object, **headers: str) -> Any:
    return (await server.http.post("/graphql", headers={**BEARER, **headers}, json=body)).json()


async def counted(server: Scraped) -> dict[tuple[str, str, str], float]:
    """Counts by (face, kind, outcome), no scrapes."""
    samples = (await server.families())["aliquot_requests"].samples
    found = {(s.labels["face"], s.labels["kind"], s.labels["outcome"]): s.value for s in samples}
    return {key: value for key, value in found.items() if key[0] != "metrics"}


async def until(server: Scraped, sample: str, expected: float, **labels: str) -> None:
    """Wait for a sample's value."""
    async with asyncio.timeout(60):
        while await server.value(sample, **labels) != expected:  # noqa: ASYNC110 # no event
            await asyncio.sleep(0.02)


async def test_operations_are_counted_by_kind_and_outcome() -> None:
    async with scraped() as server:
        await ask(server, {"query": AGENTS})
        await ask(server, {"query": CANCEL})
        await ask(
            server, {"query": f"query a {AGENTS} {CANCEL.replace('mutation', 'mutation b')}", "operationName": "b"}
        )
        await ask(server, {"query": "{ nothing }"})
        await server.http.post("/graphql", json={"query": AGENTS})
        assert await counted(server) == {
            ("graphql", "query", "answered"): 1,
            ("graphql", "mutation", "answered"): 2,
            ("graphql", "query", "refused"): 1,
            ("graphql", "write", "refused"): 1,
        }
        assert await server.value("aliquot_request_seconds_count", face="graphql", kind="mutation") == 2


async def test_a_fault_is_a_failed_request_although_its_status_is_200(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="aliquot.api")
    async with scraped() as server:
        server.reader.fault = RuntimeError("a bug")
        await ask(server, {"query": AGENTS})
        assert await counted(server) == {("graphql", "query", "failed"): 1}


async def test_requests_of_other_interfaces_are_counted_separately() -> None:
    async with scraped() as server:
        await server.http.get("/healthz")
        await server.http.get("/nowhere")
        for path in ("/queue/statistics", "/cluster/nothing", "/openapi.json"):
            await server.http.get(path)
        assert await counted(server) == {
            ("health", "read", "answered"): 1,
            ("page", "read", "refused"): 1,
            ("rest", "read", "refused"): 3,
        }
        assert await server.value("aliquot_requests_total", face="metrics", kind="read", outcome="answered") == 1


async def test_outputs_followed_by_another_server_have_no_request_duration() -> None:
    async def follow(_request: Request) -> Response:
        return PlainTextResponse("as long as it is printed")

    counts = RequestCounts()
    face = RequestLog(Starlette(routes=[Route(OUTPUTS_PATH, follow)]), counts=counts)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(face), base_url="http://here") as client:
        await client.get(OUTPUTS_PATH)
    (ended,), (seconds,) = counts.ended.collect(), counts.seconds.collect()
    assert [(tuple(sample.labels.values()), sample.value) for sample in ended.samples] == [
        (("servers", "subscription", "answered"), 1.0)
    ]
    assert seconds.samples == []


async def test_a_socket_with_a_revoked_key_is_counted_until_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    may_close = asyncio.Event()

    async def close_late(adapter: SocketAdapter, code: int, reason: str) -> None:
        await may_close.wait()
        await adapter.ws.close(code, reason)

    monkeypatch.setattr(SocketAdapter, "close", close_late)
    async with scraped() as server:
        accounts = server.office.accounts
        await accounts.create_user(ROOT, NewUser(name="bob", role=Role.USER))
        made = await accounts.create_api_key(ROOT, NewApiKey(user="bob", name="laptop", scope=KeyScope.READ))
        address = f"ws://{server.http.base_url.netloc.decode()}/graphql"
        async with connect(address, subprotocols=[SUBPROTOCOL]) as socket:
            await sign_in(socket, {"token": made.secret})
            await accounts.revoke_api_key(ROOT, made.api_key.id)
            assert await server.value("aliquot_subscribers", transport="socket") == 1
            assert await server.value("aliquot_subscribers", transport="stream") == 0
            may_close.set()
            await until(server, "aliquot_subscribers", 0, transport="socket")


async def test_subscribers_are_counted_while_connected_and_have_no_request_duration() -> None:
    async with scraped() as server:
        body = {"query": UPDATES, "variables": {"after": 41}}
        async with server.http.stream("POST", "/graphql", headers={**BEARER, **EVENTS}, json=body):
            await until(server, "aliquot_subscribers", 1, transport="stream")
            address = f"ws://{server.http.base_url.netloc.decode()}/graphql"
            async with connect(address, subprotocols=[SUBPROTOCOL]) as socket:
                await sign_in(socket)
                await subscribe(socket, UPDATES, after=41)
                await until(server, "aliquot_subscribers", 1, transport="socket")
                assert await server.value("aliquot_subscribers", transport="stream") == 1
            await until(server, "aliquot_subscribers", 0, transport="socket")
        await until(server, "aliquot_subscribers", 0, transport="stream")
        await until(server, "aliquot_requests_total", 1, face="graphql", kind="socket", outcome="answered")
        families = await server.families()
        kinds = {sample.labels["kind"] for sample in families["aliquot_request_seconds"].samples}
        assert kinds <= {"read", "write"}
