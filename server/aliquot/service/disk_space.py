"""Disk space: while a disk is nearly full nothing new is launched there, so that what runs and what is committed has
room. Measured, so kept in memory alone."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from aliquot.service.ports import Clock
from aliquot_schema.ids import AgentId
from aliquot_schema.reasons import Reason

log: Final = logging.getLogger("aliquot.disk")

LOOK_S: Final = 5.0
_FOR_WANT_OF_AGENTS: Final = frozenset(
    {Reason.CLUSTER_UNAVAILABLE, Reason.NO_AGENT, Reason.INSUFFICIENT, Reason.FRAGMENTED, Reason.GANG_INCOMPLETE}
)


class DiskSpace:
    """What is short, in words."""

    def __init__(self) -> None:
        self.look: Callable[[], str | None] = lambda: None
        """Asks the server's own disk; None when it has room. May block."""
        self.server: str | None = None
        self.agents: dict[AgentId, str] = {}

    def allows(self, agent_id: AgentId) -> bool:
        """Whether something new may be launched on an agent."""
        return self.server is None and agent_id not in self.agents

    def note(self, agent_id: AgentId, shortage: str | None) -> bool:
        """An agent told of its disk; whether that changes anything."""
        before = self.agents.pop(agent_id, None)
        if shortage is not None:
            self.agents[agent_id] = shortage
        if (before is None) == (shortage is None):
            return False
        log.warning("agent %s: %s", agent_id, _launches(shortage))
        return True

    async def look_around(self) -> bool:
        """Ask the server's own disk; whether there is a change."""
        before, self.server = self.server, await asyncio.to_thread(self.look)
        if (before is None) == (self.server is None):
            return False
        log.warning("%s", _launches(self.server))
        return True

    def shortages(self) -> list[str]:
        """All of them, for people."""
        own = [] if self.server is None else [_launches(self.server)]
        return own + [f"agent {agent_id}: {_launches(words)}" for agent_id, words in sorted(self.agents.items())]

    def explained(self, message: str, *, reason: Reason) -> str:
        """Why a session waits, with what a full disk has to do with it."""
        if reason not in _FOR_WANT_OF_AGENTS:
            return message
        if self.server is not None:
            return _launches(self.server)
        return "; ".join([message, *self.shortages()])


async def watch(space: DiskSpace, *, clock: Clock, on_moved: Callable[[], None]) -> None:
    """Ask the server's own disk again and again."""
    while True:
        if await space.look_around():
            on_moved()
        await clock.sleep(LOOK_S)


def _launches(shortage: str | None) -> str:
    return "launches go on, for there is room again" if shortage is None else f"nothing new is launched: {shortage}"
