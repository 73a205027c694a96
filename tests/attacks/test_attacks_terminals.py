"""Access to terminals and ports of sessions, and limits on their data."""

import asyncio
from contextlib import suppress

import pytest
from starlette.types import Message
from starlette.websockets import WebSocket
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus

from aliquot.api import session_streams
from aliquot.api.limits import Limits
from aliquot.api.session_streams import KEY_ENDED, MESSAGE_BYTES_MAX, REFUSED, TOO_LARGE, TOO_MANY, TRY_AGAIN, Relay
from aliquot.app.outputs import leader_stream
from aliquot.service.ports import StoreUnavailable
from aliquot_schema.cluster.streams import StreamTarget
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.orchestration import Action
from api_server import TOKEN, ApiServer, api_server, closing_code
from api_streams import EchoStream
from e2e_sessions import until
from session_sockets import (
    PATH,
    PROJECT,
    REVOKE,
    TERMINAL,
    UPDATE_USER,
    open_session_stream,
    running_session,
    stream_socket,
    user_with_key,
)

pytestmark = pytest.mark.anyio


async def test_a_terminal_of_the_owner_is_opened_and_audited(server: ApiServer) -> None:
    await running_session(server)
    async with stream_socket(server) as socket:
        assert await open_session_stream(socket, TERMINAL) == {"opened": True}
        await socket.send(b"x" * MESSAGE_BYTES_MAX)
        assert len(await socket.recv()) == MESSAGE_BYTES_MAX
    [(_, kernel_id, _, echo)] = server.streams.opened
    action = server.admin.state.find(Action, "stream/ada")
    assert action is not None
    assert (kernel_id, action.facts["kernel"], action.facts["recorded"]) == ("ses_1.1.0", "ses_1.1.0", "false")

    async def is_closed() -> bool:
        return echo.is_closed

    await until(is_closed)


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_stream_to_a_session_that_does_not_read_ends(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, leaves: bool
) -> None:
    written, closed = asyncio.Event(), asyncio.Event()

    async def never(_: EchoStream, __: bytes) -> None:
        written.set()
        await asyncio.Event().wait()

    async def close(_: EchoStream) -> None:
        closed.set()

    monkeypatch.setattr(session_streams, "READ_S", 0.3)
    monkeypatch.setattr(EchoStream, "write", never)
    monkeypatch.setattr(EchoStream, "close", close)
    await running_session(server)
    async with asyncio.timeout(20), stream_socket(server) as socket:
        assert await open_session_stream(socket, {"port": 8888}) == {"opened": True}
        await socket.send(b"x")
        await written.wait()
        if leaves:
            await socket.close()
        else:
            assert await closing_code(socket) == TRY_AGAIN
        await closed.wait()


async def test_a_stream_through_a_leader_that_does_not_read_is_closed() -> None:
    is_over = asyncio.Event()

    async def leader(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.send('{"opened":true}')
        await is_over.wait()

    async with serve(leader, "127.0.0.1", 0, close_timeout=0.5) as listener:
        address = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        target = StreamTarget(port=8888)
        kernel_id = KernelId("ses_1.1.0")
        stream = await leader_stream(address, TOKEN, AgentId("a"), kernel_id, target, leads=lambda: True)
        assert (stream._socket.ping_timeout or 0) > session_streams.READ_S  # type: ignore[attr-defined]
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                while True:
                    await stream.write(b"x" * 1_000_000)
        async with asyncio.timeout(10):
            await stream.close()
        is_over.set()


async def test_a_port_that_cannot_be_recorded_is_refused_each_time(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running_session(server)

    async def fail(*_: object, **__: object) -> None:
        raise StoreUnavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(server.admin.journal, "transact", fail)
        for _ in range(2):
            async with stream_socket(server) as socket:
                assert (await open_session_stream(socket, {"port": 8888}))["error"] == "unavailable"
    assert server.streams.opened == []


@pytest.mark.parametrize("role", ["operator", "admin"])
async def test_terminals_of_operators_are_opened_and_audited(server: ApiServer, role: str) -> None:
    await running_session(server)
    _, secret = await user_with_key(server, "eve", role)
    async with stream_socket(server, headers={"authorization": f"Bearer {secret}"}) as socket:
        assert "error" not in await open_session_stream(socket, TERMINAL)
    action = server.admin.state.find(Action, "stream/eve")
    assert action is not None
    assert action.facts["session"] == "ses_1"


@pytest.mark.parametrize(("role", "is_shared"), [("user", True), ("user", False), ("viewer", True)])
async def test_project_members_get_a_terminal_only_of_shared_sessions(
    server: ApiServer, role: str, is_shared: bool
) -> None:
    await running_session(server, shares_access=is_shared)
    _, secret = await user_with_key(server, "eve", role, projects=[PROJECT])
    async with stream_socket(server, headers={"authorization": f"Bearer {secret}"}) as socket:
        is_in = (await open_session_stream(socket, TERMINAL)).get("error") != "forbidden"
        assert is_in is (is_shared and role == "user")


@pytest.mark.parametrize("role", ["viewer", "user"])
async def test_terminals_and_ports_are_refused_to_other_users(server: ApiServer, role: str) -> None:
    await running_session(server)
    _, secret = await user_with_key(server, "eve", role)
    for asked in (TERMINAL, {"port": 8888}):
        async with stream_socket(server, headers={"authorization": f"Bearer {secret}"}) as socket:
            assert (await open_session_stream(socket, asked))["error"] == "forbidden"
            assert await closing_code(socket) == REFUSED
    assert server.streams.opened == []


async def test_a_viewer_gets_no_terminal_of_a_session_of_its_own(server: ApiServer) -> None:
    await running_session(server, owner="eve")
    _, secret = await user_with_key(server, "eve", "viewer")
    async with stream_socket(server, headers={"authorization": f"Bearer {secret}"}) as socket:
        assert (await open_session_stream(socket, TERMINAL))["error"] == "forbidden"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"cookie": "aliquot_session=stolen"},
        {"authorization": f"Bearer {TOKEN}", "origin": "http://elsewhere.example"},
        {"authorization": f"Bearer {TOKEN}", "host": "elsewhere.example"},
    ],
)
@pytest.mark.parametrize("path", [PATH, "/servers/streams"])
async def test_invalid_credentials_and_other_origins_are_refused_before_the_handshake(
    server: ApiServer, headers: dict[str, str], path: str
) -> None:
    await running_session(server)
    with pytest.raises(InvalidStatus) as refused:
        async with stream_socket(server, path, headers):
            pass
    assert refused.value.response.status_code in (401, 403)


async def test_a_cookie_opens_a_terminal_from_the_servers_own_pages_alone(server: ApiServer) -> None:
    await running_session(server)
    cookie = {"cookie": f"aliquot_session={server.auth.cookie_for(TOKEN)}"}
    async with stream_socket(server, headers={**cookie, "origin": f"http://127.0.0.1:{server.port}"}) as socket:
        assert await open_session_stream(socket, TERMINAL) == {"opened": True}
    for origin in ("http://app-ses_1.apps.localhost", f"https://127.0.0.1:{server.port + 1}", "null"):
        with pytest.raises(InvalidStatus):
            async with stream_socket(server, headers={**cookie, "origin": origin}):
                pass


async def test_a_user_key_is_refused_at_the_server_stream_address(server: ApiServer) -> None:
    _, secret = await user_with_key(server, "eve", "admin")
    with pytest.raises(InvalidStatus) as refused:
        async with stream_socket(server, "/servers/streams", {"authorization": f"Bearer {secret}"}):
            pass
    assert refused.value.response.status_code == 401


async def test_a_terminal_is_closed_when_its_key_is_revoked(server: ApiServer) -> None:
    key_id, secret = await user_with_key(server, "eve", "user")
    await running_session(server, owner="eve")
    async with stream_socket(server, headers={"authorization": f"Bearer {secret}"}) as socket:
        assert await open_session_stream(socket, TERMINAL) == {"opened": True}
        await server.data(REVOKE, id=key_id)
        assert await closing_code(socket) == KEY_ENDED
    assert server.streams.opened[0][3].is_closed


@pytest.mark.parametrize(
    ("change", "code"),
    [({"projects": ["vision"]}, TRY_AGAIN), ({"role": "operator"}, TRY_AGAIN), ({"disabled": True}, KEY_ENDED)],
)
async def test_a_terminal_connects_again_when_its_user_gets_other_rights(
    server: ApiServer, change: dict[str, object], code: int
) -> None:
    _, secret = await user_with_key(server, "eve", "user")
    await running_session(server, owner="eve")
    async with stream_socket(server, headers={"authorization": f"Bearer {secret}"}) as socket:
        assert await open_session_stream(socket, TERMINAL) == {"opened": True}
        await server.data(UPDATE_USER, input={"name": "eve", **change})
        assert await closing_code(socket) == code


@pytest.mark.parametrize(
    "message", [b"x" * (MESSAGE_BYTES_MAX + 1), "not the end", pytest.param("e" * 2**20, id="a long text")]
)
async def test_oversized_and_invalid_messages_close_the_stream(server: ApiServer, message: bytes | str) -> None:
    await running_session(server)
    async with stream_socket(server) as socket:
        await open_session_stream(socket, TERMINAL)
        await socket.send(message)
        assert await closing_code(socket) == TOO_LARGE


@pytest.mark.parametrize(
    "first",
    [
        "",
        "[]",
        "{",
        '{"terminal": {"name": "../x"}}',
        '{"terminal": {"name": "x", "viewer": "a b"}}',
        '{"terminal": {"name": "x", "rows": 1000000}}',
        '{"terminal": {"name": "x", "term": "a b"}}',
        '{"terminal": {"name": "x", "command": ["a\\u0000b"]}}',
        '{"terminal": {"name": "x", "grace_s": 1e9}}',
        '{"terminal": {"name": "x"}, "port": 22}',
        '{"port": 0}',
        '{"port": 65536}',
        '{"port": "22"}',
        '{"rank": -1, "port": 22}',
        '{"rank": 1, "port": 22}',
        '{"target": "unix:/run/x"}',
        pytest.param('{"terminal": {"name": "' + "x" * 300_000 + '"}}', id="a long name"),
        pytest.param("[" * 100_000, id="deep"),
    ],
)
async def test_an_invalid_first_message_opens_no_stream(server: ApiServer, first: str) -> None:
    await running_session(server)
    async with stream_socket(server) as socket:
        await socket.send(first)
        assert await closing_code(socket) in (REFUSED, TOO_LARGE)
    assert server.streams.opened == []


async def test_a_client_cannot_request_terminal_recording(server: ApiServer) -> None:
    await running_session(server)
    async with stream_socket(server) as socket:
        await open_session_stream(socket, {"terminal": {"name": "one", "record": True}})
    terminal = server.streams.opened[0][2].terminal
    assert terminal is not None
    assert terminal.record is False


async def test_a_session_that_does_not_run_has_no_terminal(server: ApiServer) -> None:
    for path in (PATH, "/sessions/ses_1.1.0/stream", "/sessions/%2e%2e/stream"):
        async with stream_socket(server, path) as socket:
            assert (await open_session_stream(socket, TERMINAL))["error"] == "not_found"
    with pytest.raises(InvalidStatus):
        async with stream_socket(server, "/sessions/..%2F..%2Fses_1/stream"):
            pass


async def test_session_streams_per_user_are_limited() -> None:
    async with api_server(session_streams_per_user=2) as server:
        await running_session(server)
        async with stream_socket(server) as one, stream_socket(server) as two:
            await open_session_stream(one, TERMINAL)
            await open_session_stream(two, TERMINAL)
            async with stream_socket(server) as three:
                assert await closing_code(three) == TOO_MANY
        async with stream_socket(server) as again:
            assert await open_session_stream(again, TERMINAL) == {"opened": True}


async def test_a_client_that_sends_no_first_message_is_disconnected() -> None:
    async with api_server(connection_init_s=0.1) as server:
        await running_session(server)
        async with stream_socket(server) as socket:
            with pytest.raises(ConnectionClosed):
                await socket.recv()
    assert server.streams.opened == []


async def test_a_stream_is_closed_if_its_client_disconnects_while_it_is_opened() -> None:
    messages: list[Message] = [{"type": "websocket.connect"}, {"type": "websocket.receive", "text": "{}"}]
    echo = EchoStream()

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        if message["type"] == "websocket.send":
            raise OSError

    async def open_stream(_: str) -> EchoStream:
        return echo

    socket = WebSocket({"type": "websocket"}, receive, send)
    await socket.accept()
    await Relay(socket, limits=Limits()).run(open_stream)
    assert echo.is_closed
