"""Snapshot rows: immutable rows of agents, pending and running sessions, rebuilt only when their source changes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.model.plan import KernelPlacement
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import Queue
from aliquot.core.model.snapshot import AgentRow, PendingRow, RunningRow, checkpoint_ms, owner_estimate_ms
from aliquot.core.prediction import Prediction, Workload
from aliquot.core.saved_work import acknowledges, saved_ms
from aliquot.core.scheduler.expected_ends import planned_duration_ms
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.ids import AgentId, SessionId
from aliquot_schema.resources.confinement import (
    ABILITY_LABELS,
    IMAGES_LABEL,
    SANDBOX_LABEL,
    SandboxProfile,
    image_label,
)
from aliquot_schema.resources.leases import Kernel, Lease
from aliquot_schema.sessions import Session
from aliquot_schema.states import KernelState, SessionState

HOLDING: Final = frozenset({SessionState.SCHEDULED, SessionState.ALLOCATING, SessionState.RUNNING})
"""States of sessions that hold devices and are not being preempted."""
JOINED_PER_ROW: Final = 10
"""A `Queue` never frees the numbers of its shared values, so it is rebuilt after this many added rows per row."""


class QueueRows:
    """The pending rows as a columnar queue, updated incrementally."""

    def __init__(self, pending: Mapping[SessionId, PendingRow]) -> None:
        """`pending` is read by `queue`; every change of it must be reported with `note`."""
        self._pending = pending
        self._queued: dict[SessionId, PendingRow] = {}
        self._moved: set[SessionId] = set()
        self._queue = Queue.of(())
        self._joined = 0

    def note(self, session_id: SessionId) -> None:
        """Record that a row was added, replaced or removed."""
        self._moved.add(session_id)

    def queue(self) -> Queue:
        """The current pending rows."""
        if not self._moved:
            return self._queue
        left = [row for row in map(self._queued.get, self._moved) if row is not None]
        joined = [row for row in map(self._pending.get, self._moved) if row is not None]
        self._joined += len(joined)
        if 2 * len(self._moved) > len(self._queued) or self._joined > JOINED_PER_ROW * len(self._pending):
            self._queue, self._joined = Queue.of(tuple(self._pending.values())), 0
            self._queued = dict(self._pending)
        else:
            self._queue = self._queue.changed(left=left, joined=joined)
            for row in left:
                del self._queued[row.session_id]
            self._queued.update((row.session_id, row) for row in joined)
        self._moved.clear()
        return self._queue


class RunningRows:
    """Rows of sessions that hold devices, updated incrementally."""

    def __init__(self, make: Callable[[SessionId], RunningRow | None]) -> None:
        """`make` returns the current row of a session; None when it holds no devices."""
        self._make = make
        self._rows: dict[SessionId, RunningRow] = {}
        self._moved: dict[SessionId, None] = {}
        self._tuple: tuple[RunningRow, ...] | None = None

    def note(self, session_id: SessionId) -> None:
        """Record that a session's row may have changed."""
        self._moved[session_id] = None

    def note_all(self) -> None:
        """Record that all rows may have changed."""
        self._moved |= dict.fromkeys(self._rows)

    def rows(self) -> tuple[RunningRow, ...]:
        """All current rows; the same object until something changes."""
        self.settle()
        if self._tuple is None:
            self._tuple = tuple(self._rows.values())
        return self._tuple

    def settle(self) -> None:
        """Rebuild the noted rows now, so that the next `rows` call is cheap."""
        self._tuple = None if self._moved else self._tuple
        for session_id in self._moved:
            row = self._make(session_id)
            if row is None:
                self._rows.pop(session_id, None)
            else:
                self._rows[session_id] = row
        self._moved.clear()


class AgentRows:
    """Rows of agents, cached."""

    def __init__(self) -> None:
        self._known: dict[tuple[AgentId, bool], tuple[Agent, AgentRow]] = {}

    def row(self, agent: Agent, *, layout: DeviceLayout, is_open: bool) -> AgentRow:
        """The row of an agent; the same object for the same agent object."""
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
            is_spot=agent.is_spot,
            until_us=agent.until_us,
        )
        self._known[agent.id, is_open] = (agent, row)
        return row


def _labels(agent: Agent) -> Mapping[str, str]:
    """Its labels; its sandbox profile, and what it can do, which sessions may require; and its images."""
    profile, lacks = agent.capabilities.sandbox, agent.capabilities.lacks
    able = {label: "yes" for field, label in ABILITY_LABELS.items() if field not in lacks}
    labels = {**agent.all_labels, **able}
    if agent.capabilities.containers != "none":
        labels = {**labels, IMAGES_LABEL: "yes", **dict.fromkeys(map(image_label, agent.capabilities.images), "yes")}
    return {**labels, SANDBOX_LABEL: profile} if profile in tuple(SandboxProfile) else labels


def pending_row(session: Session, *, workload: Workload | None) -> PendingRow:
    """The row of a waiting session. Dependencies apply to the first attempt only, so retries have none."""
    row = PendingRow.of(session, workload=workload)
    return replace(row, depends_on=()) if session.attempt and row.depends_on else row


def running_row(
    session: Session,
    held: Sequence[tuple[Kernel, Lease]],
    *,
    agents: Iterable[AgentRow],
    policy: Policy,
    predicted: Prediction | None,
) -> RunningRow:
    """The row of a session that holds devices.

    Args:
        held: its kernels that have not exited, with their leases; at least one.
        agents: at least those that the kernels run on.
    """
    agents = tuple(agents)
    nodes = {agent.id: agent.node_id for agent in agents}
    kernels = [
        KernelPlacement(rank=kernel.rank, agent_id=kernel.agent_id, node_id=nodes[kernel.agent_id], spec=lease.spec)
        for kernel, lease in sorted(held, key=lambda pair: pair[0].rank)
    ]
    is_leaving = session.state not in HOLDING or any(kernel.state is KernelState.STOPPING for kernel, _ in held)
    since_us = session.started_us if session.started_us is not None else held[0][0].granted_us
    planned_us = 1000 * planned_ms(session, predicted, policy=policy)
    ends_us = _leaves_us(session, since_us=since_us) if is_leaving else since_us + planned_us
    saves = session.work is not None or session.spec.checkpoint_every_ms is not None
    own_ms = saved_ms(session) if saves else 0
    return replace(
        RunningRow.of(session.id, kernels, ends_us=ends_us, agents=agents),
        version=session.version,
        owner=session.owner,
        project=session.project,
        priority=session.priority,
        started_us=session.started_us,
        estimate_ms=_expected_ms(session, predicted),
        is_preemptible=session.spec.preemptible,
        preemptions=session.preemptions,
        kept_ms=session.kept_ms - own_ms,
        saved_ms=own_ms if saves and acknowledges(session) else None,
        checkpoint_ms=checkpoint_ms(session.spec),
        grace_ms=session.spec.grace_ms,
        is_leaving=is_leaving,
        elastic=PendingRow.of(session) if session.kernels_min <= len(kernels) < session.request.cluster_size else None,
        array_id=session.array_id,
        booking=session.spec.booking,
        limit_us=None if session.spec.time_limit_ms is None else since_us + 1000 * session.spec.time_limit_ms,
        asks_limit_us=_asked_limit_us(session, since_us=since_us),
        granted_us=min(lease.granted_us for _, lease in held),
        key_id=session.key_id,
    )


def planned_ms(session: Session, predicted: Prediction | None, *, policy: Policy) -> int:
    """Run time that backfill plans with, see `planned_duration_ms`."""
    return planned_duration_ms(
        estimate_ms=owner_estimate_ms(session.spec),
        median_ms=None if predicted is None else predicted.median_ms,
        limit_ms=session.spec.time_limit_ms,
        policy=policy,
        pool=session.pool,
        kept_ms=session.kept_at_start_ms,
    )


def _expected_ms(session: Session, predicted: Prediction | None) -> int | None:
    """Expected run time, as the order of waiting sessions has it: the owner's estimate, the mean, else the limit."""
    spec = session.spec
    if spec.estimated_duration_ms is not None:
        return owner_estimate_ms(spec)
    return spec.time_limit_ms if predicted is None else predicted.estimate_ms


def _asked_limit_us(session: Session, *, since_us: int) -> int | None:
    """The later end that its owner asks for, until a pass has decided about it."""
    asked = session.extension
    if asked is None or not asked.is_open or asked.attempt != session.attempt or session.started_us is None:
        return None
    return since_us + 1000 * asked.time_limit_ms


def _leaves_us(session: Session, *, since_us: int) -> int:
    """When a leaving session must have exited; if unknown, a past time, which `expected_ends` extends."""
    if session.state is SessionState.PREEMPTING and session.preemption is not None:
        return session.preemption.until_us
    return session.ended_us if session.ended_us is not None else since_us
