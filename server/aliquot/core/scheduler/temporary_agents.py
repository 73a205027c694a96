"""Temporary agents: spot nodes, and nodes that leave at a known time, and the sessions that may start on them.

A preemptible session may start on any of them: it is preempted when the node goes. Another session may start only where
its time limit ends before the node leaves. Nothing starts on a node whose time is over.
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from aliquot.core.model.queue import Queue
from aliquot.core.model.snapshot import AgentRow, PendingRow
from aliquot_schema.ids import AgentId, SessionId, natural_key

ROWS_MAX: Final = 100_000
"""Rows kept from pass to pass."""


def may_start(row: PendingRow, agent: AgentRow, *, at_us: int) -> bool:
    """Whether an agent's node stays long enough for a session that starts at a time."""
    if agent.until_us is None:
        return row.is_preemptible or not agent.is_spot
    if row.is_preemptible or row.limit_ms is None:
        return row.is_preemptible and at_us < agent.until_us
    return at_us + row.limit_ms * 1000 <= agent.until_us


class TemporaryRows:
    """Rows of earlier passes with the temporary agents that they may not start on, so that they are made once."""

    def __init__(self) -> None:
        self._known: dict[tuple[SessionId, tuple[AgentId, ...]], tuple[PendingRow, PendingRow]] = {}

    def row(self, row: PendingRow, barred: tuple[AgentId, ...]) -> PendingRow:
        """The row without these agents; the same object for the same row."""
        known = self._known.get((row.session_id, barred))
        if known is not None and known[0] is row:
            return known[1]
        if len(self._known) >= ROWS_MAX:
            self._known.clear()
        made = replace(row, excluded_agents=tuple(dict.fromkeys((*row.excluded_agents, *barred))))
        self._known[row.session_id, barred] = row, made
        return made


class TemporaryAgents:
    """The temporary agents of a pass."""

    def __init__(self, agents: Iterable[AgentRow], *, rows: TemporaryRows) -> None:
        found = (agent for agent in agents if agent.is_spot or agent.until_us is not None)
        self._agents: Final = tuple(sorted(found, key=lambda agent: natural_key(agent.id)))
        self.any_leaves: Final = any(agent.until_us is not None for agent in self._agents)
        """Whether one of them leaves at a known time, so that a later start may exclude more agents."""
        self._rows = rows

    def at(self, row: PendingRow, at_us: int) -> PendingRow:
        """The row of a session that starts at a time: the agents that leave too early for it are excluded."""
        barred = tuple(
            agent.id
            for agent in self._agents
            if agent.id not in row.excluded_agents and not may_start(row, agent, at_us=at_us)
        )
        return self._rows.row(row, barred) if barred else row

    def queue(self, queue: Queue, *, now_us: int) -> Queue:
        """The queue of a pass."""
        return Queue.of([self.at(row, now_us) for row in queue])

    def leaves_us(self, rows: Iterable[PendingRow], *, now_us: int) -> int | None:
        """When one of these sessions may first not start on an agent any more that it may start on now, microseconds
        UTC; None = never."""
        leaving = [(agent, agent.until_us) for agent in self._agents if agent.until_us is not None]
        times = (
            until_us if row.is_preemptible or row.limit_ms is None else until_us - row.limit_ms * 1000 + 1
            for row in rows
            for agent, until_us in leaving
            if may_start(row, agent, at_us=now_us)
        )
        return min(times, default=None)
