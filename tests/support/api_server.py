"""The HTTP application over the fakes, behind a real uvicorn on a free loopback port of the test's event loop."""

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError

from aliquot.api.application import ApiDependencies, create_app
from aliquot.api.apps.addresses import AppAddresses, AppPorts
from aliquot.api.authentication import TokenAuth
from aliquot.api.connections import OpenConnections
from aliquot.api.limits import Limits
from aliquot.clock import SystemClock
from aliquot.service.lifecycle.launch_orders import AppTokens
from aliquot.service.metrics.health import HealthCondition
from aliquot.service.sessions.files import SessionFiles
from aliquot.service.sessions.streams import SessionStreams
from aliquot_schema.graphql.context import Services
from aliquot_schema.ids import UserId
from api_fakes import FakeCluster, FakeReader, FakeWatcher, FakeWriter
from api_memory_admin import MemoryAdministration
from api_streams import FakeStreams
from workspace_parts import workspaces_of

TOKEN = "a-token-of-the-tests-0123456789"
BEARER = {"authorization": f"Bearer {TOKEN}"}
SUBPROTOCOL = "graphql-transport-ws"


@dataclass
class ApiServer:
    """A running server, its parts, and a client that has the token."""

    port: int
    cluster: FakeCluster
    reader: FakeReader
    writer: FakeWriter
    watcher: FakeWatcher
    auth: TokenAuth
    http: httpx.AsyncClient
    admin: MemoryAdministration
    streams: FakeStreams = field(default_factory=FakeStreams)
    conditions: list[HealthCondition] = field(default_factory=list)
    """Its health conditions."""

    async def post(self, query: str, /, **variables: Any) -> dict[str, Any]:
        """Send one operation, expect 200, and give the whole body."""
        response = await self.http.post("/graphql", json={"query": query, "variables": variables})
        assert response.status_code == 200, response.text
        body: dict[str, Any] = response.json()
        return body

    async def data(self, query: str, /, **variables: Any) -> dict[str, Any]:
        """Send one operation that has no errors, and give its data."""
        body = await self.post(query, **variables)
        assert "errors" not in body, body["errors"]
        data: dict[str, Any] = body["data"]
        return data

    def connect(self, **options: Any) -> connect:
        """Open a WebSocket, and send nothing."""
        return connect(f"ws://127.0.0.1:{self.port}/graphql", subprotocols=[SUBPROTOCOL], **options)


class Stage:
    """An ASGI application that can be replaced: starting and ending a listener is slow, an application not."""

    def __init__(self) -> None:
        self.application: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward."""
        assert self.application is not None
        await self.application(scope, receive, send)


@asynccontextmanager
async def listening(application: ASGIApp, **options: Any) -> AsyncIterator[int]:
    """Serve on a free loopback port, and yield it, until the block ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    port: int = listener.getsockname()[1]
    config = uvicorn.Config(
        application, log_config=None, ws_per_message_deflate=False, timeout_graceful_shutdown=5, **options
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield port
    finally:
        server.should_exit = True
        await serving
        listener.close()


@asynccontextmanager
async def on_stage(
    stage: Stage, port: int, *, apps: AppAddresses | AppPorts | None = None, **limits: Any
) -> AsyncIterator[ApiServer]:
    """Set a fresh application over fresh fakes."""
    cluster = FakeCluster()
    parts = (FakeReader(cluster), FakeWriter(cluster), FakeWatcher(cluster))
    office = MemoryAdministration()
    auth = TokenAuth(TOKEN, UserId("ada"), source="the file /run/token", people=office.state.people)
    open_connections = OpenConnections(auth)
    office.journal.subscribe(open_connections.note)
    with tempfile.TemporaryDirectory() as folder:
        async with httpx.AsyncClient(
            verify=False, base_url=f"http://127.0.0.1:{port}", headers=BEARER, timeout=60
        ) as http:
            running = ApiServer(port, cluster, *parts, auth, http, office)
            files = SessionFiles(
                state=office.state,
                store=office.store,
                journal=office.journal,
                clock=SystemClock(),
                source=running.streams,
                copies=None,
            )
            stage.application = create_app(
                ApiDependencies(
                    services=Services(
                        queries=parts[0],
                        sessions=parts[1],
                        subscriptions=parts[2],
                        administration=office.administration,
                        accounts=office.accounts,
                        files=files,
                    ),
                    files=files,
                    workspaces=workspaces_of(office.state, office.journal, Path(folder)),
                    auth=auth,
                    open_connections=open_connections,
                    streams=SessionStreams(
                        state=office.state,
                        journal=office.journal,
                        clock=SystemClock(),
                        source=running.streams,
                        records_terminals=False,
                        app_tokens=AppTokens(TOKEN.encode()),
                    ),
                    server_streams=running.streams,
                    apps=apps or AppAddresses("apps.localhost"),
                    allowed_origins=("http://localhost:5173",),
                    limits=Limits(**limits),
                    conditions=lambda: tuple(running.conditions),
                )
            )
            yield running
            stage.application = None


@asynccontextmanager
async def api_server(**limits: Any) -> AsyncIterator[ApiServer]:
    """A separate listener and application with these limits."""
    stage = Stage()
    async with listening(stage, lifespan="off") as port, on_stage(stage, port, **limits) as running:
        yield running


async def send(socket_: ClientConnection, message: dict[str, Any]) -> None:
    """Send one message of the protocol."""
    await socket_.send(orjson.dumps(message).decode())


async def receive(socket_: ClientConnection) -> dict[str, Any]:
    """Await one message of the protocol."""
    async with asyncio.timeout(30):
        message: dict[str, Any] = orjson.loads(await socket_.recv())
    return message


async def sign_in(socket_: ClientConnection, payload: dict[str, Any] | None = None) -> None:
    """Sign in, and await the acknowledgement."""
    await send(socket_, {"type": "connection_init", "payload": {"token": TOKEN} if payload is None else payload})
    assert (await receive(socket_))["type"] == "connection_ack"


async def subscribe(socket_: ClientConnection, query: str, /, **variables: Any) -> None:
    """Begin the operation `1`."""
    await send(socket_, {"id": "1", "type": "subscribe", "payload": {"query": query, "variables": variables}})


async def closing_code(socket_: ClientConnection) -> int:
    """Read until the server closes; return the code."""
    with suppress(ConnectionClosedError):
        async with asyncio.timeout(60):
            async for _ in socket_:
                pass
    return int(socket_.close_code or 0)
