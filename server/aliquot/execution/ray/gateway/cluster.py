"""The Ray cluster as the gateway sees it, looked at again and again."""

import asyncio
import logging
from typing import Final

from aliquot.execution.ray.gateway.driver import RayNode, alive_nodes
from aliquot.execution.ray.gateway.keeper import NodeKeeper
from aliquot.execution.ray.gateway.switchboard import Switchboard
from aliquot.execution.ray.messages import Apart, FromServer, Joined
from aliquot.execution.ray.pipe import Pipe

LOOK_S: Final = 1.0
ANSWER_S_MAX: Final = 3.0
"""How long Ray's control store may take to answer before it is said to be away."""

log: Final = logging.getLogger("aliquot.gateway")


class Cluster:
    """One keeper for each node that is alive."""

    def __init__(self, *, version: str, head: str, server: Pipe[FromServer], switchboard: Switchboard) -> None:
        self._version = version
        self._head = head
        self._server = server
        self._switchboard = switchboard
        self._keepers: dict[RayNode, tuple[NodeKeeper, asyncio.Task[None]]] = {}

    async def watch(self) -> None:
        """Look and tell, for ever. Agents that are connected stay so while Ray's control store is away."""
        while True:
            look = asyncio.create_task(asyncio.to_thread(alive_nodes))
            while not (await asyncio.wait({look}, timeout=ANSWER_S_MAX))[0]:
                await self._server.send(Apart(reason=f"Ray's control store at {self._head} does not answer"))
            try:
                nodes = look.result()
            except Exception as error:
                words = str(error).partition("\n")[0] or type(error).__name__
                await self._server.send(Apart(reason=f"Ray's control store at {self._head}: {words}"))
            else:
                await self._keep(nodes)
            await asyncio.sleep(LOOK_S)

    async def _keep(self, nodes: tuple[RayNode, ...]) -> None:
        for node in self._keepers.keys() - set(nodes):
            log.info("node %s (%s) has left", node.hostname, node.address)
            _, keeping = self._keepers.pop(node)
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
        for node in nodes:
            if node.wants_agent and node not in self._keepers:
                log.info("node %s (%s) is there", node.hostname, node.address)
                keeper = NodeKeeper(node, switchboard=self._switchboard)
                self._keepers[node] = keeper, asyncio.create_task(keeper.run())
        keepers = [keeper for keeper, _ in self._keepers.values()]
        await self._server.send(
            Joined(
                version=self._version,
                nodes=len(nodes),
                workers=sum(keeper.has_agent for keeper in keepers),
                problems=tuple(keeper.problem for keeper in keepers if keeper.problem),
            )
        )
