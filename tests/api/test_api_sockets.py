"""Subscriptions over graphql-transport-ws: the protocol's rules, resuming, and clients that do not read."""

import asyncio
import json
import logging
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

import api_views as views
from api_server import BEARER, TOKEN, ApiServer, api_server, closing_code, receive, send, sign_in, subscribe

pytestmark = pytest.mark.anyio

UPDATES = """subscription ($after: BigInt) { queue_updates(after: $after) {
  event_number kind at pending session { id state } } }"""
LOGS = """subscription ($id: ID!, $rank: Int! = 0, $offset: BigInt! = 0) {
  session_logs(id: $id, rank: $rank, offset: $offset) { offset next_offset text at_end } }"""


async def next_update(socket: Any) -> dict[str, Any]:
    message = await receive(socket)
    assert message["type"] == "next", message
    update: dict[str, Any] = message["payload"]["data"]["queue_updates"]
    return update


@pytest.mark.parametrize(
    "payload", [{"token": TOKEN}, {"authorization": f"Bearer {TOKEN}"}, {"Authorization": f"bearer {TOKEN}"}]
)
async def test_the_connection_init_message_authenticates_a_socket(server: ApiServer, payload: dict[str, Any]) -> None:
    async with server.connect() as socket:
        await sign_in(socket, payload)


@pytest.mark.parametrize("how", ["header", "cookie"])
async def test_a_header_or_a_cookie_authenticates_a_socket(server: ApiServer, how: str) -> None:
    cookie = f"aliquot_session={server.auth.redeem(server.auth.new_login_code())}"
    headers = BEARER if how == "header" else {"cookie": cookie}
    async with server.connect(additional_headers=headers) as socket:
        await sign_in(socket, {})


@pytest.mark.parametrize(
    "payload", [{}, {"token": "x"}, {"token": 5}, {"authorization": TOKEN}, {"authorization": "Bearer "}]
)
async def test_a_socket_without_valid_credentials_is_closed(server: ApiServer, payload: dict[str, Any]) -> None:
    async with server.connect() as socket:
        await send(socket, {"type": "connection_init", "payload": payload})
        assert await closing_code(socket) == 4403


async def test_a_socket_with_a_wrong_token_and_a_valid_cookie_is_closed(server: ApiServer) -> None:
    cookie = f"aliquot_session={server.auth.redeem(server.auth.new_login_code())}"
    async with server.connect(additional_headers={"cookie": cookie}) as socket:
        await send(socket, {"type": "connection_init", "payload": {"token": "wrong"}})
        assert await closing_code(socket) == 4403


async def test_a_socket_without_connection_init_is_closed_after_a_timeout() -> None:
    async with api_server(connection_init_s=0.1) as server, server.connect() as socket:
        assert await closing_code(socket) == 4408


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        (['{"id": "1", "type": "subscribe", "payload": {"query": "{ __typename }"}}'], 4401),
        (['{"type": "connection_init", "payload": 5}'], 4400),
        (["{"], 4400),
        (["5"], 4400),
        (["null"], 4400),
        (['{"type": "nonsense"}'], 4400),
        (["{}"], 4400),
        (['{"type": "subscribe"}'], 4400),
        (['{"type": "subscribe", "id": 1, "payload": {"query": "{ __typename }"}}'], 4400),
        (['{"type": "subscribe", "id": "1", "payload": 5}'], 4400),
        (['{"type": "subscribe", "id": "1", "payload": {"query": "{a}", "variables": 5}}'], 4400),
        (['{"type": "complete"}'], 4400),
        ([b"\x00"], 4400),
    ],
)
async def test_a_socket_that_violates_the_protocol_is_closed(
    server: ApiServer, messages: list[str | bytes], code: int
) -> None:
    async with server.connect() as socket:
        for message in messages:
            await socket.send(message)
        assert await closing_code(socket) == code


async def test_repeated_connection_init_and_duplicate_operation_ids_close_the_socket(server: ApiServer) -> None:
    async with server.connect() as socket:
        await sign_in(socket)
        await send(socket, {"type": "connection_init", "payload": {"token": TOKEN}})
        assert await closing_code(socket) == 4429
    async with server.connect() as socket:
        await sign_in(socket)
        await subscribe(socket, UPDATES)
        await subscribe(socket, UPDATES)
        assert await closing_code(socket) == 4409


async def test_another_subprotocol_is_closed(server: ApiServer) -> None:
    async with connect(f"ws://127.0.0.1:{server.port}/graphql", subprotocols=["graphql-ws"]) as socket:  # type: ignore[list-item]  # any text
        assert await closing_code(socket) == 4406


async def test_a_ping_is_answered(server: ApiServer) -> None:
    async with server.connect() as socket:
        await send(socket, {"type": "ping"})
        assert await receive(socket) == {"type": "pong"}


async def test_messages_are_text(server: ApiServer) -> None:
    async with server.connect() as socket:
        await send(socket, {"type": "ping"})
        assert isinstance(await socket.recv(), str)


async def test_queries_run_over_a_socket(server: ApiServer) -> None:
    async with server.connect() as socket:
        await sign_in(socket)
        await subscribe(socket, "{ agents { total_count } }")
        message = await receive(socket)
        assert message["payload"]["data"] == {"agents": {"total_count": 2}}
        assert await receive(socket) == {"id": "1", "type": "complete"}
    assert server.cluster.callers[-1].user == "ada"
    assert server.cluster.callers[-1].request_id.startswith("req_")


async def test_a_subscription_receives_changes_live(server: ApiServer) -> None:
    async with server.connect() as socket:
        await sign_in(socket)
        await subscribe(socket, UPDATES)
        await asyncio.wait_for(server.watcher.started.wait(), 30)
        for number in (1, 2):
            server.cluster.sessions.append(views.session(number))
            await server.cluster.publish(server.cluster.sessions[-1], "session.queued")
            assert await next_update(socket) == {
                "event_number": 41 + number,
                "kind": "session.queued",
                "at": views.MOMENT_TEXT,
                "pending": number,
                "session": {"id": f"ses_{number}", "state": "queued"},
            }


async def test_a_reconnecting_client_gets_every_update_exactly_once(server: ApiServer) -> None:
    seen: list[int] = []
    after = 41
    for _ in range(3):
        async with server.connect() as socket:
            await sign_in(socket)
            for _ in range(5):
                await server.cluster.publish(views.session(1), "session.queued")
            await subscribe(socket, UPDATES, after=after)
            seen += [(await next_update(socket))["event_number"] for _ in range(3)]
            after = seen[-1]
    assert seen == list(range(42, 42 + 9))


async def test_the_source_is_closed_with_its_subscription(server: ApiServer) -> None:
    async with server.connect() as socket:
        await sign_in(socket)
        await subscribe(socket, UPDATES)
        await asyncio.wait_for(server.watcher.started.wait(), 30)
        await send(socket, {"id": "1", "type": "complete"})
        await asyncio.wait_for(server.watcher.closed.wait(), 30)


async def test_the_source_is_closed_when_the_client_vanishes(server: ApiServer) -> None:
    async with server.connect() as socket:
        await sign_in(socket)
        await subscribe(socket, UPDATES)
        await asyncio.wait_for(server.watcher.started.wait(), 30)
        socket.transport.abort()
        await asyncio.wait_for(server.watcher.closed.wait(), 30)


async def test_a_log_subscription_resumes_from_an_offset_and_ends(server: ApiServer) -> None:
    async with server.connect() as socket:
        await sign_in(socket)
        await subscribe(socket, LOGS, id="ses_1")
        chunks = [(await receive(socket))["payload"]["data"]["session_logs"] for _ in range(2)]
        assert [chunk["text"] for chunk in chunks] == ["one\n", "two\n"]
        assert [chunk["at_end"] for chunk in chunks] == [False, True]
        assert await receive(socket) == {"id": "1", "type": "complete"}
        await subscribe(socket, LOGS, id="ses_1", offset=chunks[0]["next_offset"])
        assert (await receive(socket))["payload"]["data"]["session_logs"]["offset"] == 4


@pytest.mark.parametrize(
    ("query", "variables", "code"),
    [
        (LOGS, {"id": "ses_1", "rank": 3}, "not_found"),
        (LOGS, {"id": "ses_1", "rank": -1}, "invalid_request"),
        (LOGS, {"id": "ses_1", "offset": -1}, "invalid_request"),
        (LOGS, {"id": "broken"}, "internal"),
        (UPDATES, {"after": 99}, "invalid_request"),
        (UPDATES, {"after": -1}, "invalid_request"),
    ],
)
async def test_a_failed_subscription_returns_an_error_code(
    server: ApiServer, query: str, variables: dict[str, Any], code: str
) -> None:
    async with server.connect() as socket:
        await sign_in(socket)
        await subscribe(socket, query, **variables)
        message = await receive(socket)
        assert message["type"] == "next"
        [error] = message["payload"]["errors"]
        assert error["extensions"]["code"] == code
        assert "secret" not in json.dumps(message)
        assert await receive(socket) == {"id": "1", "type": "complete"}


@pytest.mark.parametrize("query", ["{ nothing }", "{", "subscription A { ", "{ " + "a: __typename " * 200 + "}"])
async def test_a_request_error_ends_the_operation_not_the_socket(server: ApiServer, query: str) -> None:
    async with server.connect() as socket:
        await sign_in(socket)
        await send(socket, {"id": "1", "type": "subscribe", "payload": {"query": query, "operationName": None}})
        message = await receive(socket)
        assert (message["type"], message["id"]) == ("error", "1")
        await send(socket, {"type": "ping"})
        assert await receive(socket) == {"type": "pong"}


async def test_operations_per_socket_are_limited() -> None:
    async with api_server(operations_per_socket=2) as server, server.connect() as socket:
        await sign_in(socket)
        for number in ("1", "2", "3"):
            await send(socket, {"id": number, "type": "subscribe", "payload": {"query": UPDATES}})
        message = await receive(socket)
        assert (message["id"], message["type"]) == ("3", "error")


async def test_a_client_that_does_not_read_is_disconnected_and_buffers_stay_bounded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with api_server(slow_client_s=0.3) as server, server.connect(max_queue=1, max_size=None) as socket:
        await sign_in(socket)
        await subscribe(socket, LOGS, id="endless")
        # recv is not called: the client's buffers fill, then the server's.
        await asyncio.wait_for(server.watcher.closed.wait(), 60)
        given = server.watcher.given
        assert given < 500  # of 100 kB each; loopback buffers hold some MB
        # When it reads again it gets the buffered items, then the reason.
        assert await closing_code(socket) == 4429
        assert server.watcher.given == given
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
async def test_sockets_from_other_origins_are_refused(server: ApiServer, origin: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with server.connect(additional_headers={"origin": origin}):
            pass
    assert refused.value.response.status_code == 403


async def test_sockets_to_other_host_names_are_refused(server: ApiServer) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with connect("ws://evil.example/graphql", host="127.0.0.1", port=server.port):
            pass
    assert refused.value.response.status_code == 403


async def test_sockets_from_own_and_allowed_origins_are_accepted(server: ApiServer) -> None:
    for origin in (f"http://127.0.0.1:{server.port}", "http://localhost:5173"):
        async with server.connect(additional_headers={"origin": origin}) as socket:
            await sign_in(socket)
