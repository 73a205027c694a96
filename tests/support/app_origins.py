"""A server with apps of a session at origins of their own, and what reaches them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlsplit

import httpx
from msgspec.structs import replace
from starlette.types import Receive, Scope, Send
from websockets.asyncio.client import connect

from aliquot.api.apps.proxy import MESSAGE_BYTES_MAX
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.ids import UserId
from aliquot_schema.states import KernelState, SessionState
from api_server import BEARER, ApiServer, api_server, listening
from core_records import kernel, session

OPEN = "/sessions/ses_1/apps/lab"
CREATE_USER = "mutation ($input: CreateUserInput!) { create_user(input: $input) { __typename } }"
CREATE_KEY = """
mutation ($input: CreateApiKeyInput!) {
  create_api_key(input: $input) { ... on CreateApiKeySuccess { secret api_key { id } } }
}
"""
REVOKE = "mutation ($id: ID!) { revoke_api_key(id: $id) { __typename } }"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Says what it got; and tries what an app must not do."""
    if scope["type"] == "websocket":
        await receive()
        names = {name.decode(): value.decode() for name, value in scope["headers"]}
        set_cookies = [(b"set-cookie", value) for value in (b"own=2; Path=/", b"wide=1; Domain=apps.localhost")]
        chosen = next(iter(scope["subprotocols"]), None)
        await send({"type": "websocket.accept", "subprotocol": chosen, "headers": set_cookies})
        await send({"type": "websocket.send", "text": json.dumps(names)})
        while (message := await receive())["type"] == "websocket.receive":
            if message.get("text") == "flood":
                await send({"type": "websocket.send", "bytes": b"x" * (MESSAGE_BYTES_MAX + 1)})
            elif message.get("text") == "leave":
                await send({"type": "websocket.close", "code": 4007, "reason": "enough"})
                return
            else:
                await send({**message, "type": "websocket.send"})
        return
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message.get("more_body"):
            break
    cookies = ["own=1; Path=/", "wide=1; Domain=apps.localhost", "aliquot_session=eve", "aliquot_app=eve; Path=/x"]
    headers = [(b"set-cookie", cookie.encode()) for cookie in cookies]
    headers += [(b"clear-site-data", b'"cookies"'), (b"connection", b"x-own"), (b"x-own", b"1"), (b"x-kept", b"2")]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    got = {
        "path": scope["raw_path"].decode() + "?" + scope["query_string"].decode(),
        "method": scope["method"],
        "body": body.decode(),
        "headers": [[name.decode(), value.decode()] for name, value in scope["headers"]],
    }
    await send({"type": "http.response.body", "body": json.dumps(got).encode()})


async def running_session(server: ApiServer, owner: str = "ada", **apps: int) -> None:
    """A session that runs, with apps."""

    def change(draft: UnitOfWork) -> None:
        found = session(SessionState.RUNNING, owner=UserId(owner))
        draft.put(replace(found, spec=replace(found.spec, apps=apps or {"lab": 8888, "board": 6006})), "started")
        draft.put(kernel(KernelState.RUNNING), "started")

    await server.admin.journal.transact(change, actor="test")


@asynccontextmanager
async def app_server(**limits: Any) -> AsyncIterator[ApiServer]:
    """A server with a session of ada, whose ports all lead to `app`."""
    async with api_server(**limits) as server, listening(app, lifespan="off") as port:
        server.streams.listener = port
        await running_session(server)
        yield server


def host(server: ApiServer, name: str = "lab-1") -> str:
    return f"{name}.apps.localhost:{server.port}"


async def ticket(server: ApiServer, headers: dict[str, str] | None = None, path: str = OPEN) -> httpx.Response:
    """What the server's own origin answers to one who wants in."""
    async with httpx.AsyncClient(verify=False, base_url=f"http://127.0.0.1:{server.port}") as http:
        return await http.get(path, headers=BEARER if headers is None else headers)


async def at(server: ApiServer, path: str, name: str = "lab-1", method: str = "GET", **more: Any) -> httpx.Response:
    """A request to an app's origin; the machine is not asked for the name."""
    headers = {"host": host(server, name), **more.pop("headers", {})}
    async with httpx.AsyncClient(verify=False, base_url=f"http://127.0.0.1:{server.port}", timeout=30) as http:
        return await http.request(method, path, headers=headers, **more)


async def cookie(server: ApiServer, headers: dict[str, str] | None = None, path: str = OPEN) -> str:
    """The Cookie header of one who came in."""
    parts = urlsplit((await ticket(server, headers, path)).headers["location"])
    answer = await at(server, f"{parts.path}?{parts.query}", parts.netloc.split(".")[0])
    assert answer.status_code == 303, answer.text
    [(name, morsel)] = SimpleCookie(answer.headers["set-cookie"]).items()
    assert (morsel["domain"], morsel["httponly"], morsel["samesite"]) == ("", True, "Lax")
    return f"{name}={morsel.value}"


async def raw(server: ApiServer, request: str) -> int:
    """Status of the answer to a request that no library sends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request.encode())
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])


def socket(server: ApiServer, headers: dict[str, str], name: str = "lab-1", **more: Any) -> connect:
    url = f"ws://{host(server, name)}/ws?x=1"
    return connect(url, host="127.0.0.1", port=server.port, additional_headers=headers, compression=None, **more)


async def user_with_key(server: ApiServer, name: str, role: str) -> tuple[str, dict[str, str]]:
    """A user: the id of a key of theirs, and the header with it."""
    await server.data(CREATE_USER, input={"name": name, "role": role})
    wanted = {"user": name, "name": "laptop", "scope": "admin"}
    made = (await server.data(CREATE_KEY, input=wanted))["create_api_key"]
    return made["api_key"]["id"], {"authorization": f"Bearer {made['secret']}"}
