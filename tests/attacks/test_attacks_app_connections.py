"""Connections between browsers and apps that end unexpectedly."""

import asyncio
import logging
import socket as sockets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import cast

import httpx
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from aliquot.api.apps import app_connection, proxy
from aliquot.api.apps.headers import AppRefused
from aliquot.api.session_streams import DataRateLimit
from aliquot.execution.agent.streams import SocketStream
from aliquot.execution.remote.flow_control import FlowStream
from aliquot.service.ports import ByteStream
from aliquot_schema.cluster.agent_protocol import StreamData
from aliquot_schema.cluster.streams import StreamTarget
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import AgentId, KernelId
from api_server import ApiServer
from app_origins import REVOKE, app_server, at, cookie, host, raw, running_session, socket, user_with_key

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """The event loop of the server."""
    return "asyncio", {"use_uvloop": True}


@asynccontextmanager
async def answering(server: ApiServer, answer: bytes) -> AsyncIterator[list[bytes]]:
    """All apps send this answer to each request, and close. Yields the request heads."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
        server.streams.listener = listener.sockets[0].getsockname()[1]
        yield heads


@pytest.mark.parametrize(
    ("answer", "status", "length", "body"),
    [
        (b"304 Not Modified\r\ncontent-length: 10", 304, None, b""),
        (b"204 No Content\r\ncontent-length: 4\r\n\r\nmore", 204, None, b""),
        (b"200 OK\r\nx-name: a\x01b\r\ncontent-length: 0", 200, "0", b""),
        (b"200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n4\r\nabcd\r\n0", 200, None, b"abcd"),
        (b"200 OK\r\ncontent-length: 0", 200, "0", b""),
        (b"600 Other\r\ncontent-length: 0", 502, "44", b"The app gave no valid answer: the status 600"),
    ],
)
async def test_malformed_app_responses_are_not_logged_as_server_errors(
    answer: bytes, status: int, length: str | None, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with app_server() as server:
        headers = {"cookie": await cookie(server)}
        async with answering(server, b"HTTP/1.1 " + answer + b"\r\n\r\n"):
            got = await at(server, "/", headers=headers)
        assert (got.status_code, got.headers.get("content-length"), got.content) == (status, length, body)
        assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize(
    ("target", "sent", "answer", "status"),
    [
        ("/ws?x=1#part", b"/ws?x=1", b"403 Forbidden", 403),
        ("/ws#part", b"/ws", b"499 Other", 502),
        ("/a;b@c:d?", b"/a;b@c:d", b"302 Found\r\nlocation: /elsewhere", 502),
        ("http://elsewhere.example/", None, b"", 400),
        ("*", None, b"", 400),
    ],
)
async def test_a_websocket_with_an_odd_target_or_answer_is_refused(
    target: str, sent: bytes | None, answer: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    upgrade = "upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: "
    async with app_server() as server:
        own = await cookie(server)
        async with answering(server, b"HTTP/1.1 " + answer + b"\r\n\r\n") as heads:
            headers = f"host: {host(server)}\r\ncookie: {own}\r\n{upgrade}dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            assert await raw(server, f"GET {target} HTTP/1.1\r\n{headers}") == status
    assert [head.split()[1] for head in heads] == ([] if sent is None else [sent])
    assert "Traceback" not in caplog.text


async def test_a_waiting_app_request_is_refused_when_its_key_is_revoked() -> None:
    async with app_server() as server:
        key_id, bearer = await user_with_key(server, "eve", "user")
        await running_session(server, owner="eve")
        headers = {"cookie": await cookie(server, bearer)}
        _, stopped, used = breaking(server)
        stopped.set()
        asking = asyncio.create_task(at(server, "/", headers=headers))
        async with asyncio.timeout(20):
            await used.wait()
        await server.data(REVOKE, id=key_id)
        assert (await asking).status_code == 401


class Breaking:
    """A stream whose agent is lost once `lost` is set, and whose app stops reading once `stopped` is."""

    def __init__(self, inner: ByteStream, lost: asyncio.Event, stopped: asyncio.Event) -> None:
        self._inner = inner
        self._lost = lost
        self._stopped = stopped

    async def read(self) -> bytes:
        reading, losing = asyncio.ensure_future(self._inner.read()), asyncio.create_task(self._lost.wait())
        try:
            await asyncio.wait([reading, losing], return_when=asyncio.FIRST_COMPLETED)
            if self._lost.is_set():
                raise Unavailable("the connection to the agent was lost")
            return reading.result()
        finally:
            reading.cancel()
            losing.cancel()

    async def write(self, data: bytes) -> None:
        if self._stopped.is_set():
            await asyncio.Event().wait()
        await self._inner.write(data)

    async def end(self) -> None:
        await self._inner.end()

    async def close(self) -> None:
        await self._inner.close()


def breaking(server: ApiServer) -> tuple[asyncio.Event, asyncio.Event, asyncio.Event]:
    """Events that break all streams opened later, see `Breaking`; the third reports an opening."""
    lost, stopped, used = asyncio.Event(), asyncio.Event(), asyncio.Event()
    known = server.streams.open_stream

    async def open_stream(agent_id: AgentId, kernel_id: KernelId, target: StreamTarget) -> SocketStream:
        used.set()
        return cast("SocketStream", Breaking(await known(agent_id, kernel_id, target), lost, stopped))

    server.streams.open_stream = open_stream  # type: ignore[method-assign]
    return lost, stopped, used


async def test_a_websocket_ends_when_its_agent_is_lost() -> None:
    async with app_server() as server:
        lost, _, _ = breaking(server)
        async with socket(server, {"cookie": await cookie(server)}) as browser:
            await browser.recv()
            lost.set()
            with pytest.raises(ConnectionClosed) as closed:
                async with asyncio.timeout(20):
                    await browser.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1012


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of an app that never reads, with a short timeout."""
    for module in (app_connection, proxy):
        monkeypatch.setattr(module, "ANSWER_S", 0.5)
    with sockets.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


async def test_an_app_gets_the_code_and_the_reason_of_a_close() -> None:
    closed: asyncio.Future[tuple[int | None, str | None]] = asyncio.get_running_loop().create_future()

    async def follow(connection: ServerConnection) -> None:
        await connection.wait_closed()
        closed.set_result((connection.close_code, connection.close_reason))

    async with app_server() as server, serve(follow, "127.0.0.1", 0) as app, asyncio.timeout(60):
        server.streams.listener = next(iter(app.sockets)).getsockname()[1]
        browser = await socket(server, {"cookie": await cookie(server)})
        await browser.close(4001, "saved")
        assert await closed == (4001, "saved")


async def test_an_upload_to_an_app_that_does_not_read_ends(deaf: int) -> None:
    async with app_server() as server:
        headers = {"cookie": await cookie(server)}
        server.streams.listener = deaf
        answer = await at(server, "/", method="PUT", content=b"x" * 20_000_000, headers=headers)
        assert (answer.status_code, answer.text) == (502, "The app gave no valid answer: the app does not read")


async def until_blocked(write: Callable[[bytes], Awaitable[None]], limit_s: float) -> None:
    """Write until a timeout."""
    async with asyncio.timeout(limit_s):
        while True:
            await write(b"x" * 1_000_000)


@pytest.mark.usefixtures("deaf")
async def test_a_websocket_to_an_app_that_does_not_read_ends() -> None:
    async with app_server() as server:
        _, stopped, _ = breaking(server)
        async with socket(server, {"cookie": await cookie(server)}) as browser:
            await browser.recv()
            stopped.set()
            with pytest.raises(ConnectionClosed) as closed:
                await until_blocked(browser.send, 20)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1012


async def test_an_upload_that_its_app_refuses_gets_the_answer_of_the_app(caplog: pytest.LogCaptureFixture) -> None:
    async with app_server() as server:
        headers = {"cookie": await cookie(server)}
        async with answering(server, b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nbig"):
            answer = await at(server, "/", method="PUT", content=b"x" * 20_000_000, headers=headers)
        assert (answer.status_code, answer.text) == (413, "big")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_an_answer_that_its_app_breaks_off_is_broken_off(caplog: pytest.LogCaptureFixture) -> None:
    async with app_server() as server:
        headers = {"cookie": await cookie(server)}
        async with answering(server, b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"):
            with pytest.raises(httpx.RemoteProtocolError):
                await at(server, "/", headers=headers)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


BOTH_LOOPS = pytest.mark.parametrize(
    "anyio_backend", [("asyncio", {"use_uvloop": True}), ("asyncio", {"use_uvloop": False})], ids=["uvloop", "asyncio"]
)


@asynccontextmanager
async def serving(
    server: ApiServer, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
) -> AsyncIterator[None]:
    """All apps are `serve`, until the browser leaves."""
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener, asyncio.timeout(60):
        server.streams.listener = listener.sockets[0].getsockname()[1]
        yield


@BOTH_LOOPS
async def test_an_answer_arrives_while_its_app_does_not_read_the_upload() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nbig")
        await is_answered.wait()  # it reads no more, and leaves the connection open
        writer.close()

    async with app_server() as server:
        headers, is_answered = {"cookie": await cookie(server)}, asyncio.Event()
        async with serving(server, refuse):
            answer = await at(server, "/", method="PUT", content=b"x" * 20_000_000, headers=headers)
            is_answered.set()
    assert (answer.status_code, answer.text) == (413, "big")


@BOTH_LOOPS
async def test_an_app_answers_while_the_upload_arrives() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while (line := await reader.readuntil(b"\r\n")) != b"0\r\n":
            writer.write(line + await reader.readexactly(int(line, 16) + 2))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with app_server() as server:
        own = await cookie(server)
        async with serving(server, echo):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            head = f"PUT / HTTP/1.1\r\nhost: {host(server)}\r\ncookie: {own}\r\ntransfer-encoding: chunked\r\n\r\n"
            writer.write(head.encode() + b"3\r\none\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            assert await reader.readuntil(b"one\r\n") == b"3\r\none\r\n"
            writer.write(b"3\r\ntwo\r\n")
            assert await reader.readuntil(b"two\r\n") == b"3\r\ntwo\r\n"
            writer.write(b"0\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n") == b"0\r\n\r\n"
            writer.close()


async def test_an_app_that_reads_a_long_upload_need_not_answer_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"one")
        monkeypatch.setattr(app_connection, "ANSWER_S", 600.0)
        await asyncio.sleep(2.5)
        has_begun.set()
        await reader.readuntil(b"two")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nread")
        writer.close()

    async def body() -> AsyncIterator[bytes]:
        yield b"one"
        await has_begun.wait()
        yield b"two"

    async with app_server() as server:
        headers, has_begun = {"cookie": await cookie(server)}, asyncio.Event()
        monkeypatch.setattr(app_connection, "ANSWER_S", 2.0)
        async with serving(server, receive):
            answer = await at(server, "/", method="PUT", content=body(), headers=headers)
    assert (answer.status_code, answer.text) == (200, "read")


@BOTH_LOOPS
async def test_a_browser_that_leaves_during_its_upload_is_not_blamed_on_the_app(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    async def follow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        with suppress(ConnectionError):
            rest.set_result(await reader.read())
        writer.close()

    async with app_server() as server:
        own, rest = await cookie(server), asyncio.get_running_loop().create_future()
        async with serving(server, follow):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            head = f"PUT / HTTP/1.1\r\nhost: {host(server)}\r\ncookie: {own}\r\ntransfer-encoding: chunked\r\n\r\n"
            writer.write(head.encode() + b"3\r\none\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            writer.close()
            assert await rest == b"3\r\none\r\n", "the app sees that the upload is not complete"
    assert "broke off" not in caplog.text


async def answered_early(method: str, data: bytes) -> list[dict[str, object]]:
    """What the browser gets where this data of the app, or its end, is there before the request is sent."""
    sent: list[dict[str, object]] = []

    async def note(message: dict[str, object]) -> None:
        sent.append(message)

    async def unused(_message: object) -> None:
        return

    stream = FlowStream(1, send=unused)
    stream.receive(StreamData(request=1, data=data))
    scope = {"type": "http", "method": method, "scheme": "http", "headers": []}
    exchange = proxy.HttpExchange(scope, asyncio.Event().wait, note, host="app", target=b"/", token="x")
    async with asyncio.timeout(60):
        await exchange.run(stream, DataRateLimit(1 << 30), asyncio.Event())
    return sent


@BOTH_LOOPS
async def test_an_app_that_has_closed_before_the_request_is_sent_is_refused() -> None:
    with pytest.raises(AppRefused) as refused:
        await answered_early("GET", b"")
    assert refused.value.text == "The app gave no valid answer: the app closed the connection"


async def test_an_answer_that_comes_before_the_request_is_sent_belongs_to_it() -> None:
    """To HEAD, an answer has no body, whatever its length says."""
    sent = await answered_early("HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n")
    assert [one.get("status") for one in sent] == [200, None]
