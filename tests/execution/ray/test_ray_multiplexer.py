"""How the gateway handles failed calls to a node's actor, other than that the actor is gone."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from ray.exceptions import RayTaskError

from aliquot.execution.ray.gateway import multiplexer
from aliquot.execution.ray.gateway.driver import RayNode
from aliquot.execution.ray.gateway.multiplexer import ActorSupervisor, Multiplexer
from aliquot.execution.ray.protocol import ConnectionEnded, ConnectionOpened, FromGateway, FromServer, Pipe

pytestmark = pytest.mark.anyio

NODE = RayNode(id="1", hostname="n1", address="10.0.0.1")


class Method:
    """A method of an actor."""

    def __init__(self, answer: Callable[[], Awaitable[Any]]) -> None:
        self._answer = answer

    def remote(self, *_: Any) -> Awaitable[Any]:
        return self._answer()


async def _described() -> dict[str, Any]:
    return {"agents": ["a"], "problem": None, "loaded_code": "1", "installed_code": "1"}


async def _nothing() -> None:
    return None


async def _never() -> None:
    await asyncio.Event().wait()


async def _failed() -> None:
    raise RayTaskError("fetch", "Traceback", ValueError("it has failed"))


class Actor:
    """An actor with the agent `a`."""

    describe = Method(_described)
    connect = Method(_nothing)
    disconnect = Method(_nothing)
    bring = Method(_never)

    def __init__(self, fetch: Callable[[], Awaitable[Any]] = _never) -> None:
        self.fetch = Method(fetch)


@asynccontextmanager
async def supervised(monkeypatch: pytest.MonkeyPatch, actors: list[Any]) -> AsyncIterator[Pipe[FromGateway]]:
    """The server's end of a gateway with one node whose successive actors (or errors) are these."""

    def obtain(_: RayNode) -> Any:
        found = actors.pop(0) if len(actors) > 1 else actors[0]
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(multiplexer, "obtain_actor", obtain)
    ours, theirs = socket.socketpair()
    server: Pipe[FromGateway] = Pipe(*await asyncio.open_unix_connection(sock=ours), incoming=FromGateway)
    gateway: Pipe[FromServer] = Pipe(*await asyncio.open_unix_connection(sock=theirs), incoming=FromServer)
    running = asyncio.create_task(ActorSupervisor(NODE, multiplexer=Multiplexer(gateway)).run())
    try:
        yield server
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        gateway.close()
        server.close()


async def received(server: Pipe[FromGateway]) -> FromGateway:
    async with asyncio.timeout(20):
        return await server.receive()


async def test_an_actor_call_that_fails_outside_ray_is_retried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with supervised(monkeypatch, [OSError("too many open files"), Actor()]) as server:
        assert await received(server) == ConnectionOpened(connection=1, agent_id="a")
    assert "its actor cannot be used" in caplog.text


async def test_a_connection_with_failing_calls_is_closed_and_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with supervised(monkeypatch, [Actor(_failed), Actor()]) as server:
        assert await received(server) == ConnectionOpened(connection=1, agent_id="a")
        assert await received(server) == ConnectionEnded(connection=1, died=True)
        assert await received(server) == ConnectionOpened(connection=2, agent_id="a")
