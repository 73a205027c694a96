"""Requests without a key: a few log lines a minute, and no information about the server."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from aliquot.api.limits import Limits
from aliquot.api.protocols import REST_BYTES_MAX, HeaderTimeoutHttp
from aliquot.service.metrics.log_context import LINES_PER_MINUTE, LineRate, RateLimited
from api_server import ApiServer, Stage, api_server, listening, on_stage
from oidc_server import oidc_server

pytestmark = pytest.mark.anyio

UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Sec-WebSocket-Version: 13"
)
WAIT_S = 60
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


class HastyHttp(HeaderTimeoutHttp):
    rest_s = 0.2


REFUSED_HEAD = b"POST /graphql HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@asynccontextmanager
async def refused(head: bytes, **options: Any) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection whose request was answered with 401 before its body."""
    stage = Stage()
    async with listening(stage, lifespan="off", http=HastyHttp, **options) as port, on_stage(stage, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REFUSED_HEAD + head + b"\r\n\r\n")
        assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_S)).startswith(b"HTTP/1.1 401")
        yield reader, writer
        writer.close()


async def test_an_endless_body_is_not_read_on_after_a_refusal() -> None:
    async with refused(b"Transfer-Encoding: chunked") as (_, writer):
        with pytest.raises(ConnectionError):
            await _send_chunks(writer, 4 * REST_BYTES_MAX)


async def test_a_body_that_stalls_after_a_refusal_ends_its_connection() -> None:
    async with refused(b"Content-Length: 100") as (reader, writer):
        writer.write(b"{")
        with suppress(ConnectionError):
            await asyncio.wait_for(_read_to_end(reader), WAIT_S)


async def test_a_connection_goes_on_after_a_refused_body_and_ends_when_it_is_idle() -> None:
    async with refused(b"Content-Length: 20", timeout_keep_alive=1) as (reader, writer):
        writer.write(b"{" * 10)
        await writer.drain()
        writer.write(b"}" * 10 + b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b"HTTP/1.1 200" in await asyncio.wait_for(reader.readuntil(b'{"ok":true}'), WAIT_S)
    async with refused(b"Content-Length: 20", timeout_keep_alive=1) as (reader, writer):
        writer.write(b"{" * 20)
        await asyncio.wait_for(_read_to_end(reader), WAIT_S)


async def _send_chunks(writer: asyncio.StreamWriter, bytes_max: int) -> None:
    chunk = b"100000\r\n" + bytes(2**20) + b"\r\n"
    for _ in range(bytes_max // len(chunk)):
        writer.write(chunk)
        await writer.drain()


async def _read_to_end(reader: asyncio.StreamReader) -> None:
    while await reader.read(65536):
        pass
