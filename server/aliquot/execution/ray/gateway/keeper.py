"""Keeps one Ray node's actor there and up to date, and its agents connected."""

import asyncio
import logging
import time
from typing import Any, Final

from ray.exceptions import RayActorError, RayError

from aliquot.execution.ray.gateway.driver import RayNode, end_actor, obtain_actor
from aliquot.execution.ray.gateway.switchboard import Switchboard
from aliquot.execution.ray.hosting import Description

AGAIN_S_MIN: Final = 0.2
AGAIN_S_MAX: Final = 10.0
CONNECT_AGAIN_S_MAX: Final = 3.0
STEADY_S: Final = 5.0
"""A connection that lasted so long was a good one."""

log: Final = logging.getLogger("aliquot.gateway")


class Outdated(Exception):
    """The actor runs older code than its node has."""


class NodeKeeper:
    """Runs for as long as Ray calls the node alive."""

    def __init__(self, node: RayNode, *, switchboard: Switchboard) -> None:
        self._node = node
        self._switchboard = switchboard
        self._problem: str | None = "its actor is being made"
        self._problems: dict[str, str | None] = {}

    @property
    def problem(self) -> str | None:
        """Why not all agents of the node can be talked to, in a line."""
        words = [self._problem] if self._problem else [f"{id}: {text}" for id, text in self._problems.items() if text]
        return f"node {self._node.hostname} ({self._node.address}): {'; '.join(words)}" if words else None

    @property
    def has_agent(self) -> bool:
        """Whether any agent of the node is connected."""
        return self._problem is None and None in self._problems.values()

    async def run(self) -> None:
        """Keep at it, until cancelled."""
        wait_s = AGAIN_S_MIN
        while True:
            try:
                actor = await asyncio.to_thread(obtain_actor, self._node)
                description: Description = await actor.describe.remote()
                await self._renew(actor, description)
                if description["problem"] is None:
                    wait_s = AGAIN_S_MIN
                self._problem = description["problem"]
                await asyncio.create_task(self._connect_all(actor, description["agents"]))  # as in `AgentVoice.talk`
            except* (RayError, Outdated) as errors:
                self._problem = _words(errors)
                log.info("node %s: %s", self._node.hostname, self._problem)
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, AGAIN_S_MAX)

    async def _renew(self, actor: Any, description: Description) -> None:
        if description["loaded_code"] != description["installed_code"]:
            await asyncio.to_thread(end_actor, actor)
            raise Outdated("its actor ran older code than is installed there, and is being replaced")

    async def _connect_all(self, actor: Any, agents: list[str]) -> None:
        """Returns at once when there is nobody; else raises when the actor is gone."""
        self._problems = dict.fromkeys(agents, "it is being connected")
        async with asyncio.TaskGroup() as group:
            for agent_id in agents:
                group.create_task(self._stay_connected(actor, agent_id))

    async def _stay_connected(self, actor: Any, agent_id: str) -> None:
        wait_s = AGAIN_S_MIN
        while True:
            began = time.monotonic()
            relay = self._switchboard.relay(actor, agent_id)
            connected = False
            try:
                self._problems[agent_id] = await actor.connect.remote(agent_id, relay.connection)
                connected = self._problems[agent_id] is None
                if connected:
                    await relay.run()
            except (RayActorError, asyncio.CancelledError):  # canceled: the node is gone
                if connected:
                    await self._switchboard.lost(relay)
                raise
            finally:
                self._switchboard.forget(relay)
            # What ends soon was refused, or is not open: it is asked again less and less often.
            wait_s = AGAIN_S_MIN if time.monotonic() - began > STEADY_S else min(2 * wait_s, CONNECT_AGAIN_S_MAX)
            await asyncio.sleep(wait_s)


def _words(errors: BaseExceptionGroup[Exception]) -> str:
    first: BaseException = errors
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    lines = str(first).strip().splitlines() or [type(first).__name__]
    return lines[-1].strip() if isinstance(first, RayActorError) and len(lines) > 1 else lines[0].strip()
