"""Who was last heard when, and what follows from silence."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from aliquot.execution.remote.timing import Timing
from aliquot_schema.ids import AgentId
from aliquot_schema.launching import AgentSilent


@dataclass(slots=True)
class _Seen:
    at: float
    is_suspect: bool = False
    is_missed: bool = False
    """It is known to be gone, before its silence tells."""


class Presence:
    """Agents that should be there. One that left, or was told to be lost, is not among them until it joins."""

    def __init__(
        self, timing: Timing, *, expected: Iterable[AgentId], now: Callable[[], float] = time.monotonic
    ) -> None:
        """
        Args:
            expected: agents that an earlier server knew; their silence counts from now on.
            now: seconds of a monotonic clock.
        """
        self._timing = timing
        self._now = now
        self._seen = {agent_id: _Seen(now()) for agent_id in expected}

    def joined(self, agent_id: AgentId) -> None:
        """It can be asked."""
        self._seen[agent_id] = _Seen(self._now())

    def heard(self, agent_id: AgentId, *, at: float) -> None:
        """It said something; that alone does not make a suspect one trusted again, joining does."""
        seen = self._seen.get(agent_id)
        if seen is not None and not seen.is_suspect:
            seen.at = max(seen.at, at)

    def missed(self, agent_id: AgentId) -> None:
        """It is gone without a good-bye, and may come back."""
        if agent_id in self._seen:
            self._seen[agent_id].is_missed = True

    def left(self, agent_id: AgentId) -> None:
        """It said good-bye."""
        self._seen.pop(agent_id, None)

    def judge(self) -> list[AgentSilent]:
        """What has become of agents since the last call, each told once."""
        told = []
        for agent_id, seen in list(self._seen.items()):
            silent_s = self._now() - seen.at
            if (seen.is_missed or silent_s > self._timing.suspect_s) and not seen.is_suspect:
                seen.is_suspect = True
                told.append(AgentSilent(agent_id=agent_id))
            if silent_s > self._timing.lost_s:
                del self._seen[agent_id]
                told.append(AgentSilent(agent_id=agent_id, lost=True))
        return told
