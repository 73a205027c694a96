"""Requests without a key: a few log lines a minute, and no information about the server."""

import asyncio
import logging
import re

import pytest

from aliquot.api.limits import Limits
from aliquot.service.metrics.log_context import LINES_PER_MINUTE, LineRate, RateLimited
from api_server import ApiServer, Stage, api_server, on_stage
from oidc_server import oidc_server

pytestmark = pytest.mark.anyio

UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Sec-WebSocket-Version: 13"
)
FLOOD = 3 * LINES_PER_MINUTE


async def half_a_post(server: ApiServer, path: str) -> None:
    """Begin a request, and disconnect in its body."""
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    kind = "application/x-www-form-urlencoded" if path == "/login" else "application/json"
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: {kind}\r\n"
    writer.write(f"{head}Content-Length: 100\r\n\r\nkey".encode())
    await writer.drain()
    await asyncio.sleep(0.05)
    writer.close()
    await writer.wait_closed()


def lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name.startswith(("aliquot", "uvicorn.error"))]


async def until(caplog: pytest.LogCaptureFixture, words: str) -> None:
    async with asyncio.timeout(20):
        while not any(words in record.getMessage() for record in lines(caplog)):  # noqa: ASYNC110  # a log has no event
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("path", ["/login", "/graphql", "/login-code"])
async def test_an_incomplete_post_is_logged_as_one_line(
    server: ApiServer, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    with caplog.at_level(logging.INFO):
        await half_a_post(server, path)
        await until(caplog, f"POST {path}")
    found = lines(caplog)
    assert [(record.levelname, record.exc_info) for record in found] == [("INFO", None)], found


async def test_a_flood_of_refused_requests_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with api_server() as server:
        with caplog.at_level(logging.INFO, logger="aliquot"):
            for _ in range(FLOOD):
                answer = await server.http.get("/queue/nothing", headers={"authorization": "Bearer wrong"})
                assert answer.status_code in (401, 404)
            assert LINES_PER_MINUTE <= len(lines(caplog)) <= 2 * LINES_PER_MINUTE + 1


def test_suppressed_log_lines_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    at_s = 6000.0
    log = logging.getLogger("aliquot.test-strangers")
    rate = LineRate(log, "refused requests", per_minute=10, monotonic=lambda: at_s)
    with caplog.at_level(logging.INFO, logger=log.name):
        assert [rate.allows() for _ in range(25)] == [True] * 10 + [False] * 15
        at_s += 60
        assert rate.allows()
    assert [record.getMessage() for record in caplog.records] == ["15 more refused requests were not logged"]


def test_log_lines_of_libraries_are_rate_limited(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("aliquot.test-strangers")
    log.addFilter(RateLimited(log, "Invalid HTTP", "requests that are not HTTP"))
    with caplog.at_level(logging.INFO, logger=log.name):
        for _ in range(FLOOD):
            log.warning("Invalid HTTP request received.")
        log.warning("something else")
    assert LINES_PER_MINUTE <= len(caplog.records) <= 2 * LINES_PER_MINUTE + 2
    log.filters.clear()


async def test_a_refused_agent_is_logged_as_one_line(
    staged: tuple[Stage, int], caplog: pytest.LogCaptureFixture
) -> None:
    stage, port = staged
    async with on_stage(stage, port):
        with caplog.at_level(logging.INFO, logger="aliquot"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET /agents/socket HTTP/1.1\r\nHost: 127.0.0.1\r\n{UPGRADE}\r\n\r\n".encode())
            answer = await asyncio.wait_for(reader.read(100), 20)
            writer.close()
            await until(caplog, "/agents/socket")
        assert re.match(rb"HTTP/1.1 (401|403)", answer)
        assert [record.levelname for record in lines(caplog)] == ["INFO"]


async def test_a_head_request_does_not_use_a_login_code(server: ApiServer) -> None:
    address = f"/login?code={server.auth.new_login_code()}"
    for _ in range(2):
        looked = await server.http.head(address)
        assert looked.status_code == 200
        assert "set-cookie" not in looked.headers
    answer = await server.http.get(address)
    assert answer.status_code == 303
    assert "set-cookie" in answer.headers


@pytest.mark.parametrize("is_open", [False, True])
async def test_the_openapi_document_needs_a_key_unless_it_is_published(is_open: bool) -> None:
    async with oidc_server("https://issuer.example.org", limits=Limits(openapi_open=is_open)) as on:
        async with on.client("wrong") as stranger:
            assert (await stranger.get("/openapi.json")).status_code == (200 if is_open else 401)
        async with on.client("the-servers-own-token") as known:
            document = (await known.get("/openapi.json")).json()
            assert document["openapi"].startswith("3.1")


SUGGESTING = (
    ("{ agentz { revision } }", {}),
    ("{ agents(frst: 1) { revision } }", {}),
    ("query($f: SessionFilter) { queue(filter: $f) { revision } }", {"f": {"statez": ["queued"]}}),
    ("query($f: SessionFilter) { queue(filter: $f) { revision } }", {"f": {"states": ["queud"]}}),
)


@pytest.mark.parametrize(("query", "variables"), SUGGESTING)
@pytest.mark.parametrize("introspection", [False, True])
async def test_errors_suggest_no_names_when_introspection_is_disabled(
    query: str, variables: dict[str, object], introspection: bool
) -> None:
    async with api_server(introspection=introspection) as server:
        errors = (await server.post(query, **variables))["errors"]
        assert ("Did you mean" in str(errors)) is introspection
