"""A Starlette app that answers GraphQL requests by script, chosen by the text of the query."""

from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

TOKEN = "secret"

ANSWERS: dict[str, Any] = {
    "success": {"data": {"create_session": {"__typename": "CreateSessionSuccess", "revision": 5}}},
    "refusal": {
        "data": {"create_session": {"__typename": "UnknownSlot", "code": "unknown_slot", "message": "no", "slot": "x"}}
    },
    "fault": {"data": None, "errors": [{"message": "broken"}, {"message": "twice"}]},
    "list": [1, 2],
}


async def answer(request: Request) -> Response:
    if request.headers.get("Authorization") != f"Bearer {TOKEN}":
        return JSONResponse({"errors": [{"message": "who?"}]}, status_code=401)
    body = await request.json()
    if body["query"] == "echo":
        return JSONResponse({"data": body["variables"]})
    if body["query"] == "text":
        return PlainTextResponse("out of order", status_code=500)
    return JSONResponse(ANSWERS[body["query"]])


async def follow(socket: WebSocket) -> None:
    await socket.accept("graphql-transport-ws")
    hello = await socket.receive_json()
    if hello["payload"] != {"Authorization": f"Bearer {TOKEN}"}:
        await socket.close(4403, "who?")
        return
    await socket.send_json({"type": "connection_ack"})
    subscribe = await socket.receive_json()
    await SCRIPTS[subscribe["payload"]["query"]](socket, subscribe)


async def count(socket: WebSocket, subscribe: dict[str, Any]) -> None:
    for number in range(subscribe["payload"]["variables"]["to"]):
        await _next(socket, subscribe, number)
    await socket.send_json({"type": "complete", "id": subscribe["id"]})
    await socket.receive()


async def ping(socket: WebSocket, subscribe: dict[str, Any]) -> None:
    await socket.send_json({"type": "ping"})
    assert (await socket.receive_json())["type"] == "pong"
    await count(socket, subscribe)


async def refuse(socket: WebSocket, subscribe: dict[str, Any]) -> None:
    await socket.send_json({"type": "error", "id": subscribe["id"], "payload": [{"message": "no such field"}]})
    await socket.receive()


async def fault(socket: WebSocket, subscribe: dict[str, Any]) -> None:
    payload = {"data": None, "errors": [{"message": "broken"}]}
    await socket.send_json({"type": "next", "id": subscribe["id"], "payload": payload})
    await socket.receive()


async def too_slow(socket: WebSocket, subscribe: dict[str, Any]) -> None:
    await _next(socket, subscribe, 0)
    await socket.close(4008, "too slow")


async def end_key(socket: WebSocket, subscribe: dict[str, Any]) -> None:
    await _next(socket, subscribe, 0)
    await socket.close(4401, "Key ended")


async def leave(socket: WebSocket, subscribe: dict[str, Any]) -> None:
    await socket.close(1001)


async def _next(socket: WebSocket, subscribe: dict[str, Any], number: int) -> None:
    await socket.send_json({"type": "next", "id": subscribe["id"], "payload": {"data": {"number": number}}})


SCRIPTS = {
    "count": count,
    "ping": ping,
    "refuse": refuse,
    "fault": fault,
    "too_slow": too_slow,
    "end_key": end_key,
    "leave": leave,
}

app = Starlette(routes=[Route("/graphql", answer, methods=["POST"]), WebSocketRoute("/graphql", follow)])
