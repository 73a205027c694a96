"""Agents of one Ray node: opens them inside the actor and connects each to the newest gateway.

A hash over the agent's source files shows whether the actor runs older code than its node has.
"""

import asyncio
import hashlib
import logging
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypedDict

import aliquot
import aliquot_schema
from aliquot.errors import ConfigurationError, ServerError
from aliquot.execution.agent.agent import AgentCore
from aliquot.execution.devices.plugin import DeviceFileError
from aliquot.execution.ray.connections import AgentWire
from aliquot.execution.ray.node_options import each_agent, read_options
from aliquot.execution.remote.agent_setup import AgentOptions, agent_core, agent_node
from aliquot.execution.remote.client import AgentSender
from aliquot.execution.remote.codec import Channel, ChannelClosed, ProtocolError
from aliquot.execution.remote.dialing import Unreachable
from aliquot.execution.remote.session import OutboxFull, Refused, ServerSilent
from aliquot_schema.errors import AliquotError, Unavailable

OPEN_AGAIN_S: Final = 0.5
"""Retry interval: a previous actor may still hold the agent's folder."""

Connection = tuple[int, int, int]
"""(epoch of the server, start time of the gateway, number in the gateway); a later connection is greater."""

log: Final = logging.getLogger("aliquot.agent")


class HostedAgent:
    """One agent inside the actor; starts to open itself when it is created."""

    def __init__(self, make: Callable[[], AgentCore]) -> None:
        """
        Args:
            make: called for each attempt to open.
        """
        self.problem: str | None = "it is not open yet"
        """Why the agent cannot be connected; None = it can."""
        self._make = make
        self._core: AgentCore | None = None
        self._sender: AgentSender | None = None
        self._wire = AgentWire()
        self._connection: Connection = (0, 0, 0)
        self._serving: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()
        self._running = asyncio.get_running_loop().create_task(self._run())

    async def connect(self, connection: Connection) -> str | None:
        """Start to serve a connection, replacing an older one; returns the reason if that is not possible.

        A connection older than the one being served is refused. It comes from a replaced gateway, or from calls that
        were delayed while this process was frozen.
        """
        async with self._connecting:
            if self._sender is None:
                return self.problem
            if connection <= self._connection and self._serving is not None and not self._serving.done():
                return "there is a newer connection"
            await self._hang_up()
            self._connection, self._wire = connection, AgentWire()
            self._serving = asyncio.get_running_loop().create_task(self._serve(self._sender, self._wire))
            return None

    async def disconnect(self, connection: Connection) -> None:
        """End a connection, if it is the current one."""
        async with self._connecting:
            if connection == self._connection:
                await self._hang_up()

    def bring(self, connection: Connection, frames: Sequence[bytes]) -> bool:
        """See `AgentWire.bring`."""
        return connection == self._connection and self._wire.bring(frames)

    async def fetch(self, connection: Connection) -> list[bytes] | None:
        """See `AgentWire.fetch`."""
        return await self._wire.fetch() if connection == self._connection else None

    async def close(self) -> None:
        """Close the agent; kernels keep running."""
        async with self._connecting:
            await self._hang_up()
        if self._core is None:
            self._running.cancel()
        else:
            await self._core.close()
        await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self) -> None:
        core = self._core = await self._opened()
        self._sender, self.problem = AgentSender(core), None
        log.info("agent %s is open in %s", core.config.id, core.config.folder)
        await self._sender.forward_reports()

    async def _opened(self) -> AgentCore:
        while True:
            try:
                core = self._make()
                await core.open()
                return core
            except (AliquotError, ServerError, DeviceFileError, OSError) as error:
                self.problem = str(error)
            except Exception as error:
                self.problem = f"it cannot be opened: {type(error).__name__}: {error}"
                log.exception("an agent cannot be opened")
            await asyncio.sleep(OPEN_AGAIN_S)

    async def _hang_up(self) -> None:
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)
            self._serving = None

    async def _serve(self, sender: AgentSender, wire: AgentWire) -> None:
        try:
            await sender.serve(Channel(wire), welcomed=lambda _: None)
        except* (Refused, Unreachable, ServerSilent, ChannelClosed, ProtocolError, OutboxFull, Unavailable) as ends:
            log.info("the connection has ended: %s", "; ".join(map(repr, ends.exceptions)))
        except* Exception as faults:
            log.error("the connection failed", exc_info=faults)
        finally:
            await wire.close(code=1000, reason="")


_AGENT: Final = {
    aliquot: ("errors.py", "core/allocation/**/*.py", "execution/**/*.py"),
    aliquot_schema: ("*.py", "cluster/*.py", "identity/*.py", "resources/*.py"),
}
"""Source files imported by agents, per package."""


def installed_code() -> str:
    """Hash of the code on disk; a running process may have loaded older code."""
    digest = hashlib.sha256()
    for package, parts in _AGENT.items():
        root = Path(str(package.__file__)).parent
        for path in sorted(path for part in parts for path in root.glob(part)):
            digest.update(f"{root.name}/{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


class ActorDescription(TypedDict):
    """State of an actor."""

    agents: list[str]
    problem: str | None
    """Why there are no agents."""
    loaded_code: str
    installed_code: str
    """If it differs from `loaded_code`, the actor has to be replaced."""


class Hosting:
    """The agents of one actor, opened by the first `describe`. Runs in the actor's event loop."""

    def __init__(self) -> None:
        logging.basicConfig(level="INFO", stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._loaded = installed_code()
        self._agents: dict[str, HostedAgent] = {}

    async def describe(self) -> ActorDescription:
        """The actor's agents and code. Creates the agents at the first call; an invalid options file is read again."""
        problem = None
        if not self._agents:
            try:
                self._agents = _open_all()
            except (ConfigurationError, OSError) as error:
                problem = str(error)
        installed = installed_code()
        return ActorDescription(
            agents=list(self._agents), problem=problem, loaded_code=self._loaded, installed_code=installed
        )

    async def connect(self, agent_id: str, connection: Connection) -> str | None:
        """See `HostedAgent.connect`."""
        return await self._agent(agent_id).connect(connection)

    async def disconnect(self, agent_id: str, connection: Connection) -> None:
        """See `HostedAgent.disconnect`."""
        await self._agent(agent_id).disconnect(connection)

    def bring(self, agent_id: str, connection: Connection, frames: Sequence[bytes]) -> bool:
        """See `HostedAgent.bring`."""
        return self._agent(agent_id).bring(connection, frames)

    async def fetch(self, agent_id: str, connection: Connection) -> list[bytes] | None:
        """See `HostedAgent.fetch`."""
        return await self._agent(agent_id).fetch(connection)

    async def close(self) -> None:
        """Close all agents; kernels keep running."""
        for agent in self._agents.values():
            await agent.close()

    def _agent(self, agent_id: str) -> HostedAgent:
        agent = self._agents.get(agent_id)
        if agent is None:
            raise Unavailable(f"this Ray node has no agent {agent_id}")
        return agent


def _open_all() -> dict[str, HostedAgent]:
    options = {str(agent_node(each).agent_id): each for each in each_agent(read_options())}
    return {agent_id: HostedAgent(partial(_core, each)) for agent_id, each in options.items()}


def _core(options: AgentOptions) -> AgentCore:
    return agent_core(options, now_us=lambda: time.time_ns() // 1000)
