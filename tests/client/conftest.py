"""A scripted server for the two protocols, on loopback."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator

import pytest
import uvicorn

from client_scripted_server import app


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def server_url(anyio_backend: str) -> AsyncIterator[str]:
    config = uvicorn.Config(app, log_config=None, ws="websockets-sansio", lifespan="off")
    server = uvicorn.Server(config)
    # Listening from here on: connections made before the server runs wait in the queue.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        await serving


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port bound by a socket that does not listen, so that no other process can use it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]
