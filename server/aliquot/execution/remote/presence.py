"""Presence of agents: the time limits of their connections, and which of them have become silent."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from aliquot_schema.cluster.launching import AgentSilent
from aliquot_schema.ids import AgentId

MISSED_BEATS: Final = 3
BEATS_PER_S_MAX: Final = 500
"""Heartbeats of all agents together, in each direction, above which their interval grows."""


class HeartbeatTiming(Struct, frozen=True, kw_only=True):
    """Timing limits, seconds. Both sides send a heartbeat every `beat_s`."""

    beat_s: float = 2.0
    lost_s: float = 30.0
    """Silence after which an agent is lost; its devices stay held."""
    greet_s: float = 10.0
    """Time limit for the hello of a new connection."""
    answer_s: float = 30.0
    """Time limit for an answer; then the connection is closed, unless results were asked for."""

    def among(self, agents: int) -> "HeartbeatTiming":
        """The limits for one more agent when `agents` are connected. Above `BEATS_PER_S_MAX` the heartbeat interval
        grows with their number, up to a fifth of `lost_s`."""
        return replace(self, beat_s=max(self.beat_s, min(agents / BEATS_PER_S_MAX, self.lost_s / 5)))

    @property
    def suspect_s(self) -> float:
        """Silence after which an agent gets no new work and its connection is closed."""
        return MISSED_BEATS * self.beat_s


@dataclass(slots=True)
class _Contact:
    at: float
    suspect_s: float
    is_suspect: bool = False
    is_missed: bool = False
    """Its process is known to be gone, before silence shows it."""


class Presence:
    """Tracks when agents were last heard. An agent that left or is lost is not tracked until it joins again."""

    def __init__(
        self, timing: HeartbeatTiming, *, expected: Iterable[AgentId], now: Callable[[], float] = time.monotonic
    ) -> None:
        """
        Args:
            expected: agents known to an earlier server; their silence counts from now on.
            now: seconds of a monotonic clock.
        """
        self._timing = timing
        self._now = now
        self._contacts = {agent_id: _Contact(now(), timing.suspect_s) for agent_id in expected}

    def joined(self, agent_id: AgentId, timing: HeartbeatTiming | None = None) -> None:
        """The agent has joined, with limits of its own if there are any."""
        self._contacts[agent_id] = _Contact(self._now(), (timing or self._timing).suspect_s)

    def seen(self, agent_id: AgentId, *, at: float) -> None:
        """The agent sent something. A suspect agent stays suspect until it joins again."""
        contact = self._contacts.get(agent_id)
        if contact is not None and not contact.is_suspect:
            contact.at = max(contact.at, at)

    def missed(self, agent_id: AgentId) -> None:
        """The agent's process is gone without a good-bye; it may come back."""
        if agent_id in self._contacts:
            self._contacts[agent_id].is_missed = True

    def left(self, agent_id: AgentId) -> None:
        """The agent said good-bye."""
        self._contacts.pop(agent_id, None)

    def judge(self) -> list[AgentSilent]:
        """Agents that have become silent or lost since the last call; each change is returned once."""
        changes = []
        for agent_id, contact in list(self._contacts.items()):
            silent_s = self._now() - contact.at
            if (contact.is_missed or silent_s > contact.suspect_s) and not contact.is_suspect:
                contact.is_suspect = True
                changes.append(AgentSilent(agent_id=agent_id))
            if silent_s > self._timing.lost_s:
                del self._contacts[agent_id]
                changes.append(AgentSilent(agent_id=agent_id, lost=True))
        return changes
