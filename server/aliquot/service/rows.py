"""Rows that snapshots share: made once per change of what they show, and never changed themselves."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.guards import guard_ms
from aliquot.core.plan import KernelPlacement
from aliquot.core.policy import Policy
from aliquot.core.queue import Queue
from aliquot.core.snapshot import AgentRow, PendingRow, RunningRow
from aliquot_schema.agents import Agent
from aliquot_schema.confinement import SANDBOX_LABEL, SandboxProfile
from aliquot_schema.ids import AgentId, SessionId
from aliquot_schema.leases import Kernel, Lease
from aliquot_schema.sessions import Session
from aliquot_schema.states import KernelState, SessionState

HOLDING: Final = frozenset({SessionState.SCHEDULED, SessionState.ALLOCATING, SessionState.RUNNING})
"""Sessions that hold devices and were not asked to give them back."""
JOINED_PER_ROW: Final = 10
"""A queue numbers what its rows have in common and forgets no number: after so many new rows for each that stands in
it, it is made anew."""


class QueueRows:
    """The queue in columns, which follows the pending rows."""

    def __init__(self, pending: Mapping[SessionId, PendingRow]) -> None:
        """`pending` is looked into at `queue`; whoever changes it says so by `note`."""
        self._pending = pending
        self._standing: dict[SessionId, PendingRow] = {}
        self._moved: set[SessionId] = set()
        self._queue = Queue.of(())
        self._joined = 0

    def note(self, session_id: SessionId) -> None:
        """This row is new, another one, or gone."""
        self._moved.add(session_id)

    def queue(self) -> Queue:
        """The pending rows as they are now."""
        if not self._moved:
            return self._queue
        left = [row for row in map(self._standing.get, self._moved) if row is not None]
        joined = [row for row in map(self._pending.get, self._moved) if row is not None]
        self._joined += len(joined)
        if 2 * len(self._moved) > len(self._standing) or self._joined > JOINED_PER_ROW * len(self._pending):
            self._queue, self._joined = Queue.of(tuple(self._pending.values())), 0
            self._standing = dict(self._pending)
        else:
            self._queue = self._queue.changed(left=left, joined=joined)
            for row in left:
                del self._standing[row.session_id]
            self._standing.update((row.session_id, row) for row in joined)
        self._moved.clear()
        return self._queue


class RunningRows:
    """Sessions that hold devices."""

    def __init__(self, make: Callable[[SessionId], RunningRow | None]) -> None:
        """`make` shows a session as it is now; None when it holds nothing."""
        self._make = make
        self._rows: dict[SessionId, RunningRow] = {}
        self._moved: dict[SessionId, None] = {}
        self._shown: tuple[RunningRow, ...] | None = None

    def note(self, session_id: SessionId) -> None:
        """This one may hold something else than before, or hold it in another way."""
        self._moved[session_id] = None

    def note_all(self) -> None:
        """What all rows are made by has changed."""
        self._moved |= dict.fromkeys(self._rows)

    def rows(self) -> tuple[RunningRow, ...]:
        """All of them, as they are now; the very same as before when nothing has changed."""
        self.settle()
        if self._shown is None:
            self._shown = tuple(self._rows.values())
        return self._shown

    def settle(self) -> None:
        """Make the rows that were noted: now, a few at a time, rather than all when somebody wants to see them."""
        self._shown = None if self._moved else self._shown
        for session_id in self._moved:
            row = self._make(session_id)
            if row is None:
                self._rows.pop(session_id, None)
            else:
                self._rows[session_id] = row
        self._moved.clear()


class AgentRows:
    """Agents, as far as placing is concerned."""

    def __init__(self) -> None:
        self._known: dict[tuple[AgentId, bool], tuple[Agent, AgentRow]] = {}

    def row(self, agent: Agent, *, layout: DeviceLayout, is_open: bool) -> AgentRow:
        """The same row as before for the very same agent."""
        known = self._known.get((agent.id, is_open))
        if known is not None and known[0] is agent:
            return known[1]
        row = AgentRow(
            id=agent.id,
            node_id=agent.node_id,
            layout=layout,
            is_open=is_open,
            pool=agent.pool,
            labels=_labels(agent),
        )
        self._known[agent.id, is_open] = (agent, row)
        return row


def _labels(agent: Agent) -> Mapping[str, str]:
    """An operator's, and what it can do that sessions may demand."""
    profile = agent.capabilities.sandbox
    return {**agent.labels, SANDBOX_LABEL: profile} if profile in tuple(SandboxProfile) else agent.labels


def pending_row(session: Session, *, estimate_ms: int | None = None) -> PendingRow:
    """A session that waits. What it depended on was met before its first attempt, and need not be kept since."""
    row = PendingRow.of(session, estimate_ms=estimate_ms)
    return replace(row, depends_on=()) if session.attempt and row.depends_on else row


def running_row(
    session: Session,
    held: Sequence[tuple[Kernel, Lease]],
    *,
    agents: Iterable[AgentRow],
    policy: Policy,
    predicted_ms: int | None,
) -> RunningRow:
    """A session that holds devices.

    Args:
        held: its kernels that have not exited; at least one.
        agents: those that the kernels are on, at least.
    """
    agents = tuple(agents)
    nodes = {agent.id: agent.node_id for agent in agents}
    kernels = [
        KernelPlacement(rank=kernel.rank, agent_id=kernel.agent_id, node_id=nodes[kernel.agent_id], spec=lease.spec)
        for kernel, lease in sorted(held, key=lambda pair: pair[0].rank)
    ]
    is_leaving = session.state not in HOLDING or any(kernel.state is KernelState.STOPPING for kernel, _ in held)
    since_us = session.started_us if session.started_us is not None else held[0][0].granted_us
    estimate_ms = session.spec.estimated_duration_ms
    estimate_ms = predicted_ms if estimate_ms is None else estimate_ms
    guard_us = 1000 * guard_ms(
        estimate_ms=estimate_ms, limit_ms=session.spec.time_limit_ms, policy=policy, pool=session.pool
    )
    ends_us = _leaves_us(session, since_us=since_us) if is_leaving else since_us + guard_us
    return replace(
        RunningRow.of(session.id, kernels, ends_us=ends_us, agents=agents),
        version=session.version,
        owner=session.owner,
        project=session.project,
        priority=session.priority,
        started_us=session.started_us,
        estimate_ms=estimate_ms,
        is_preemptible=session.spec.preemptible,
        preemptions=session.preemptions,
        grace_ms=session.spec.grace_ms,
        is_leaving=is_leaving,
        array_id=session.array_id,
    )


def _leaves_us(session: Session, *, since_us: int) -> int:
    """A time that has passed where nothing better is known: it is reckoned to be gone at any moment."""
    if session.state is SessionState.PREEMPTING and session.preemption is not None:
        return session.preemption.until_us
    return session.ended_us if session.ended_us is not None else since_us
