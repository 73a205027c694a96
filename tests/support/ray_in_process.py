"""The path from a remote executor to agents over the gateway's parts, with Ray's calls made directly."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aliquot.execution.ray.gateway.multiplexer import Multiplexer, Relay
from aliquot.execution.ray.gateway_client import GatewayClient
from aliquot.execution.ray.hosting import Hosting
from aliquot.execution.ray.node_options import VARIABLE, write_options
from aliquot.execution.ray.protocol import FromGateway, FromServer, Pipe, RayReachable, RayUnreachable
from aliquot.execution.remote.agent_setup import AgentOptions
from aliquot.execution.remote.executor import RemoteExecutor
from remote_in_memory import QUICK, MessageRecorder, OneKey


class DirectActor:
    """An actor as the gateway sees it: methods whose `remote` returns an awaitable."""

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting

    def __getattr__(self, name: str) -> Any:
        return _Method(getattr(self._hosting, name))


class _Method:
    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def remote(self, *arguments: Any) -> Awaitable[Any]:
        return asyncio.ensure_future(self._call(arguments))

    async def _call(self, arguments: tuple[Any, ...]) -> Any:
        # As in Ray: a call runs on after its caller cancels it.
        result = self._function(*arguments)
        return await result if asyncio.iscoroutine(result) else result


@dataclass(slots=True, kw_only=True)
class InProcessRay:
    """The parts of one test."""

    hosting: Hosting
    executor: RemoteExecutor
    received: MessageRecorder
    multiplexer: Multiplexer
    statuses: list[RayReachable | RayUnreachable]
    server_pipe: Pipe[FromGateway]
    relay_tasks: list[asyncio.Task[None]]

    async def connect(self, agent_id: str) -> Relay:
        """Do a keeper's work for one agent."""
        await self.hosting.describe()
        actor = DirectActor(self.hosting)
        while True:
            relay = self.multiplexer.relay(actor, agent_id)
            if await self.hosting.connect(agent_id, relay.connection) is None:
                break
            await asyncio.sleep(0.02)
        self.relay_tasks.append(asyncio.create_task(relay.run()))
        return relay


@asynccontextmanager
async def in_process_ray(
    folder: Path, *, monkeypatch: Any, options: AgentOptions | None = None
) -> AsyncIterator[InProcessRay]:
    """A line with a node's agents, none of them connected yet."""
    monkeypatch.setenv(VARIABLE, str(write_options(options or AgentOptions(data_folder=folder, demo_node=1))))
    ours, theirs = socket.socketpair()
    at_server: Pipe[FromGateway] = Pipe(*await asyncio.open_unix_connection(sock=ours), incoming=FromGateway)
    at_gateway: Pipe[FromServer] = Pipe(*await asyncio.open_unix_connection(sock=theirs), incoming=FromServer)
    executor = RemoteExecutor(keys=OneKey(), timing=QUICK, now_us=lambda: time.time_ns() // 1000)
    await executor.start()
    told: list[RayReachable | RayUnreachable] = []
    multiplexer = Multiplexer(at_gateway)
    tasks = [
        asyncio.create_task(GatewayClient(at_server, agents=executor, on_status=told.append).run()),
        asyncio.create_task(multiplexer.listen()),
    ]
    made = InProcessRay(
        hosting=Hosting(),
        executor=executor,
        received=MessageRecorder(executor),
        multiplexer=multiplexer,
        statuses=told,
        server_pipe=at_server,
        relay_tasks=[],
    )
    try:
        yield made
    finally:
        for task in (*made.relay_tasks, *tasks):
            task.cancel()
        await asyncio.gather(*made.relay_tasks, *tasks, return_exceptions=True)
        await executor.close()
        await made.hosting.close()
        at_gateway.close()
        at_server.close()
