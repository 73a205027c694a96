"""Large requests and answers: refused before decoding, charged by size, and cut off if unread."""

import asyncio
import json
from typing import Any

import orjson
import pytest
import strawberry
from graphql import parse
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect

from aliquot.api.encoding import PIECE_BYTES, AnswerTooLarge, ValueCount, answer_json
from aliquot.api.graphql.query_cost import weigh
from aliquot.api.graphql.sockets import TOO_LARGE
from aliquot.api.middleware import ResponseChunking
from aliquot.api.protocols import HeaderTimeoutHttp, PingedWebSocket
from aliquot_schema.graphql.schema import build_schema
from api_server import ApiServer, Stage, api_server, closing_code, listening, on_stage, send, sign_in

MANY = """mutation ($input: CreateSessionsInput!) { create_sessions(input: $input) {
  __typename ... on CreateSessionsSuccess { results { session { name } } } } }"""
ONE: dict[str, Any] = {"command": {"argv": ["true"]}, "slots": [{"slot": "cpu", "amount": "1"}]}
SCHEMA = build_schema(strawberry.Schema)._schema
JSON = {"content-type": "application/json"}
WAIT_S = 60

values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(st.sampled_from('a,[{"\\é')),
    lambda inner: st.lists(inner, min_size=1) | st.dictionaries(st.text(st.sampled_from(',"\\')), inner, min_size=1),
)


def counted(value: object) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(counted, value.values()))
    return 1 + sum(map(counted, value)) if isinstance(value, list) else 1


@given(values, st.booleans())
def test_values_are_counted_without_decoding(value: object, is_spaced: bool) -> None:
    text = json.dumps(value, indent=1 if is_spaced else None).encode()
    most = counted(value)
    assert not any(ValueCount(most).exceeds(text))
    assert any(ValueCount(most - 1).exceeds(text))


@pytest.mark.parametrize("before", [b'"', b'"' + b"\\\\", b'"' + b'\\"', b'"' + b"\\\\" * 3 + b'\\"'])
def test_strings_across_piece_boundaries_are_counted_correctly(before: bytes) -> None:
    for shift in range(8):
        text = b'["' + b"x" * (PIECE_BYTES - len(before) - shift) + before[1:] + b"," * 9 + b'",1]'
        assert not any(ValueCount(3).exceeds(text))
        assert any(ValueCount(2).exceeds(text))


@pytest.mark.anyio
async def test_too_many_values_are_refused_before_they_are_decoded() -> None:
    async with api_server(body_values=1000) as server:
        body = b'{"query": "{ __typename }", "variables": {"a": [' + b"1," * 1000 + b"1]}}"
        response = await server.http.post("/graphql", content=body, headers=JSON)
        assert response.status_code == 413
        [error] = response.json()["errors"]
        assert error["extensions"]["code"] == "limit_exceeded"
        assert "at most 1000 JSON values" in error["message"]
        commas = b'{"query": "{ __typename }", "variables": {"a": "' + b"," * 5000 + b'"}}'
        assert (await server.http.post("/graphql", content=commas, headers=JSON)).status_code == 200


@pytest.mark.anyio
async def test_users_who_may_not_submit_have_smaller_body_limits() -> None:
    async with api_server(small_body_bytes=2000, small_body_values=100) as server:
        await server.data(
            'mutation { create_user(input: {name: "vera", role: viewer}) { __typename } }',
        )
        key = await server.data(
            'mutation { create_api_key(input: {user: "vera", name: "k", scope: admin}) '
            "{ ... on CreateApiKeySuccess { secret } } }"
        )
        headers = JSON | {"authorization": f"Bearer {key['create_api_key']['secret']}"}
        for sessions, status in (([ONE], 200), ([0] * 200, 413), (["x" * 2000], 413)):
            body = orjson.dumps({"query": MANY, "variables": {"input": {"sessions": sessions}}})
            assert (await server.http.post("/graphql", content=body, headers=headers)).status_code == status
            assert (await server.http.post("/graphql", content=body, headers=JSON)).status_code == 200


@pytest.mark.anyio
async def test_a_message_above_the_limit_closes_its_socket() -> None:
    async with api_server(body_values=1000) as server:
        payloads: tuple[dict[str, Any], ...] = ({"a": [1] * 1000}, {"a": [{}] * 1000})
        for payload in payloads:
            async with server.connect() as socket:
                await sign_in(socket)
                operation = {"query": "{ __typename }", "variables": payload}
                await send(socket, {"id": "1", "type": "subscribe", "payload": operation})
                assert await closing_code(socket) == TOO_LARGE
        async with server.connect() as socket:  # the limit is small before sign-in
            await socket.send('{"type": "ping", "a": [' + "1," * 5000 + "1]}")
            assert await closing_code(socket) == TOO_LARGE
        assert await server.data("{ __typename }") == {"__typename": "Query"}


@pytest.mark.anyio
async def test_a_large_batch_is_accepted_and_its_errors_name_the_item(server: ApiServer) -> None:
    sessions = [{**ONE, "name": f"s{number}", "tags": [{"name": "a", "value": "b"}]} for number in range(1000)]
    body = await server.post(MANY, input={"sessions": sessions})
    assert [item["session"]["name"] for item in body["data"]["create_sessions"]["results"]] == [
        session["name"] for session in sessions
    ]
    assert body["extensions"]["cost"] > 500
    sessions[700]["slots"] = 1
    [error] = (await server.post(MANY, input={"sessions": sessions}))["errors"]
    assert "$input" in error["message"]
    assert "sessions[700].slots" in error["message"]


@pytest.mark.anyio
async def test_a_batch_list_above_the_limit_is_refused(server: ApiServer) -> None:
    body = await server.post(MANY, input={"sessions": [ONE] * 1001})
    assert "data" not in body
    assert body["errors"][0]["extensions"] == {"code": "limit_exceeded", "limit": 1000}
    assert not server.writer.requests


def test_requested_log_bytes_are_included_in_the_cost() -> None:
    logs = " ".join(f'a{n}: session_log(id: "x", bytes_max: 1048576) {{ text }}' for n in range(90))
    [(_, weight)] = weigh(parse(f"{{ {logs} }}"), SCHEMA)
    assert weight.cost > 20_000
    [(_, weight)] = weigh(parse('{ session_log(id: "x") { text } }'), SCHEMA)
    assert weight.cost == 130


@pytest.mark.parametrize(
    "field", ['session_log(id: "x", bytes_max: %d) { text }', "device_history(points: %d) { step }"]
)
def test_negative_sizes_do_not_lower_the_cost_of_the_rest(field: str) -> None:
    [(_, least)], [(_, weight)] = (weigh(parse(f"{{ {field % size} }}"), SCHEMA) for size in (0, -99999999))
    assert weight.cost == least.cost > 0


@given(st.dictionaries(st.text(), st.text() | st.integers(0, 9)), st.booleans())
def test_an_answer_is_encoded_in_parts(data: dict[str, Any], is_noted: bool) -> None:
    body: dict[str, Any] = {"data": data, **({"extensions": {"cost": 1}} if is_noted else {})}
    text = answer_json(body, bytes_max=10_000_000)
    assert orjson.loads(text) == body
    with pytest.raises(AnswerTooLarge):
        answer_json({"data": {"a": "x" * 100, "b": "x" * 100}}, bytes_max=150)


@pytest.mark.anyio
async def test_a_response_above_the_size_limit_is_an_error() -> None:
    async with api_server(answer_bytes=1000) as server:
        body = await server.post("{ __schema { types { name } } }")
        [error] = body["errors"]
        assert (body["data"], error["extensions"]) == (None, {"code": "answer_too_large", "limit": 1000})


class HastyHttp(HeaderTimeoutHttp):
    unread_s = 0.2


@pytest.mark.anyio
async def test_a_client_that_does_not_read_a_response_is_disconnected() -> None:
    """The answer is larger than the kernel buffers of both sides."""
    stage = Stage()
    async with listening(stage, lifespan="off", http=HastyHttp) as port, on_stage(stage, port) as server:

        async def large(scope: Any, receive: Any, send: Any) -> None:
            body = b"x" * 32 * 1024 * 1024
            await send({"type": "http.response.start", "status": 200, "headers": []})

            async def app(_scope: Any, _receive: Any, inner: Any) -> None:
                await inner({"type": "http.response.body", "body": body})

            await ResponseChunking(app)(scope, receive, send)
            ended.set()

        ended = asyncio.Event()
        usual, stage.application = stage.application, large
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.wait_for(ended.wait(), WAIT_S)
        writer.close()
        stage.application = usual
        assert await server.data("{ __typename }") == {"__typename": "Query"}


class HastySocket(PingedWebSocket):
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.ping_interval = self.ping_timeout = self.close_timeout = 0.2


@pytest.mark.anyio
async def test_a_websocket_that_the_server_does_not_read_is_no_silent_one() -> None:
    """Its pong comes after messages that wait, as when an app does not read an upload."""
    stage, got = Stage(), list[str]()

    async def busy(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await asyncio.sleep(1.5)
        while (message := await receive())["type"] == "websocket.receive":
            got.append(message["text"])

    stage.application = busy
    async with listening(stage, lifespan="off", ws=HastySocket) as port:
        async with connect(f"ws://127.0.0.1:{port}/", ping_interval=None) as client:
            for word in ("one", "two", "three"):
                await client.send(word)
            await asyncio.sleep(2)
            await client.send("four")
        await asyncio.sleep(0.1)
    assert got == ["one", "two", "three", "four"]


@pytest.mark.anyio
async def test_a_websocket_whose_client_reads_nothing_ends() -> None:
    stage, ends, gone = Stage(), list[str](), asyncio.Event()

    class Noting(HastySocket):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            gone.set()

    async def talkative(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        try:
            while True:
                await send({"type": "websocket.send", "bytes": b"x" * PIECE_BYTES})
                await asyncio.sleep(0)
        except OSError:
            ends.append((await receive())["type"])

    stage.application = talkative
    async with listening(stage, lifespan="off", ws=Noting) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        writer.write(f"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{key}".encode())
        await asyncio.wait_for(gone.wait(), WAIT_S)
        writer.close()
    assert ends == ["websocket.disconnect"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("headers", "status"),
    [(["x" * 40_000], 101), (["x" * 70_000], 431), (["x"] * 200, 431)],
    ids=["large", "too large", "too many"],
)
async def test_large_headers_of_a_websocket_are_accepted_or_refused_at_once(headers: list[str], status: int) -> None:
    async def accept(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})

    lines = "".join(f"x-{number}: {value}\r\n" for number, value in enumerate(headers))
    upgrade = "Host: x\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\n"
    key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    async with listening(accept, lifespan="off", ws=PingedWebSocket) as port, asyncio.timeout(WAIT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET / HTTP/1.1\r\n{upgrade}{key}{lines}\r\n".encode())
        assert (await reader.readline()).split()[1] == str(status).encode()
        writer.close()
