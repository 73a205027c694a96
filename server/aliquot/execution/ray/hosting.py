"""All agents of one node, in one actor."""

import logging
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import TypedDict

from aliquot.errors import ConfigurationError
from aliquot.execution.agent.core import AgentCore
from aliquot.execution.ray.code_version import installed_code
from aliquot.execution.ray.hosted_agent import Connection, HostedAgent
from aliquot.execution.ray.node_options import each_agent, read_options
from aliquot.execution.remote.agent_setup import AgentOptions, agent_core, agent_node
from aliquot_schema.errors import Unavailable


class Description(TypedDict):
    """What an actor says about itself."""

    agents: list[str]
    problem: str | None
    """Why there are no agents."""
    loaded_code: str
    installed_code: str
    """Another than the loaded one: the actor is to be replaced."""


class Hosting:
    """Made with the actor; opens its agents when it is first asked about them. Lives in the actor's event loop."""

    def __init__(self) -> None:
        logging.basicConfig(level="INFO", stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._loaded = installed_code()
        self._agents: dict[str, HostedAgent] = {}

    async def describe(self) -> Description:
        """Who is here. Opens what is not open; a file that cannot be used is read again the next time."""
        problem = None
        if not self._agents:
            try:
                self._agents = _open_all()
            except (ConfigurationError, OSError) as error:
                problem = str(error)
        installed = installed_code()
        return Description(
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
        """Let go of all agents; kernels run on."""
        for agent in self._agents.values():
            await agent.close()

    def _agent(self, agent_id: str) -> HostedAgent:
        agent = self._agents.get(agent_id)
        if agent is None:
            raise Unavailable(f"there is no agent {agent_id} here")
        return agent


def _open_all() -> dict[str, HostedAgent]:
    options = {str(agent_node(each).agent_id): each for each in each_agent(read_options())}
    return {agent_id: HostedAgent(partial(_core, each)) for agent_id, each in options.items()}


def _core(options: AgentOptions) -> AgentCore:
    return agent_core(options, now_us=lambda: time.time_ns() // 1000)
