"""Indexes of the in-memory state, updated with every record: counts, dependencies, ports, verdicts and retention.
All except `LastVerdicts` and `BacklogPeaks` are functions of the event log.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from aliquot.core.model.plan import BacklogPeak, KernelPlacement
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import WaitingVerdicts
from aliquot.core.model.snapshot import AgentRow, Request, RunningRow, request_of
from aliquot.core.workloads import Forecasts
from aliquot.service.state.agents import AgentRegistry
from aliquot.service.state.rows import running_row
from aliquot_schema.ids import AgentId, KernelId, LeaseId, PoolId, ProjectId, SessionId, UserId, kernel_id, natural_key
from aliquot_schema.reasons import OUT_OF_LINE, Reason, Verdict
from aliquot_schema.resources.leases import Kernel, Lease
from aliquot_schema.sessions import HELD_BY_ARRAY, Session
from aliquot_schema.states import ACTIVE, KernelState, SessionState


def tasks_waiting(session: Session) -> int:
    """Waiting tasks of a pending session: 1, or those of a job array. A task held by its array counts there."""
    return int(session.held_by != HELD_BY_ARRAY) if session.tasks is None else len(session.tasks.waiting)


class BacklogPeaks:
    """Peaks of the pools' backlogs, from passes of this server and from the ledger. Not durable by itself."""

    def __init__(self) -> None:
        self.peaks: Mapping[PoolId, BacklogPeak] = {}
        """By pool; replaced, never changed in place."""

    def update(self, peaks: Mapping[PoolId, BacklogPeak]) -> None:
        """Store new peaks, which a pass has found."""
        if peaks:
            self.peaks = {**self.peaks, **peaks}

    def set(self, peaks: Mapping[PoolId, BacklogPeak]) -> None:
        """Store all peaks."""
        self.peaks = peaks


class RequestCounts:
    """Requests of the sessions in memory, and the sessions that waiting ones depend on, with their numbers."""

    def __init__(self) -> None:
        self.asked: Counter[Request] = Counter()
        """Sessions per request; a session counts with its current request, which a fallback may have changed."""
        self._waited_for: Counter[SessionId] = Counter()

    def count(self, session: Session, *, before: Session | None) -> None:
        """Count a session; `before` is its previous version."""
        request = request_of(session)
        if before is not None and request_of(before) != request:
            self.forget(before)
            before = None
        if before is None:
            self.asked[request] += 1

    def forget(self, session: Session) -> None:
        """Remove a session that leaves memory."""
        request = request_of(session)
        self.asked[request] -= 1
        if not self.asked[request]:
            del self.asked[request]

    def add_dependencies(self, session: Session) -> None:
        """Count the dependencies of a session that starts to wait."""
        if session.spec.depends_on:
            self._waited_for.update(link.session_id for link in session.spec.depends_on)

    def remove_dependencies(self, session: Session) -> None:
        """Remove the dependencies of a session that waits no longer."""
        if not session.spec.depends_on:
            return
        self._waited_for.subtract(link.session_id for link in session.spec.depends_on)
        for link in session.spec.depends_on:
            if not self._waited_for[link.session_id]:
                del self._waited_for[link.session_id]

    def is_waited_for(self, session_id: SessionId) -> bool:
        """Whether a waiting session depends on this one, so that it stays in memory after its end."""
        return self._waited_for[session_id] > 0

    def waited_for(self) -> Iterable[SessionId]:
        """Sessions that waiting ones depend on."""
        return self._waited_for.keys()


K = TypeVar("K")


class QueueCounts(NamedTuple):
    """Numbers of waiting tasks and running sessions."""

    waiting: int
    """Tasks; a job array counts with its waiting tasks."""
    running: int
    """Sessions and tasks that hold devices; a job array itself does not count."""


NO_SESSIONS: Final = QueueCounts(0, 0)
CountKey = tuple[PoolId, ProjectId, UserId]


class PendingCounts:
    """Waiting tasks and running sessions, by pool, project and owner."""

    def __init__(self) -> None:
        self._at: dict[CountKey, QueueCounts] = {}
        self.waiting = 0
        """All waiting tasks."""

    def put(self, session: Session, *, before: Session | None) -> None:
        """Count a session; `before` is its previous version."""
        old, new = NO_SESSIONS if before is None else _counted(before), _counted(session)
        place, place_before = _count_key(session), _count_key(before or session)
        if old == new and place == place_before:
            return
        self.waiting += new.waiting - old.waiting
        self._add(place_before, less=old)
        self._add(place, more=new)

    def _add(self, key: CountKey, *, more: QueueCounts = NO_SESSIONS, less: QueueCounts = NO_SESSIONS) -> None:
        total = _changed(self._at.pop(key, NO_SESSIONS), more=more, less=less)
        if total != NO_SESSIONS:
            self._at[key] = total

    def of_pools(self) -> Mapping[PoolId, QueueCounts]:
        """By pool; a pool without sessions may be missing."""
        return _sums((pool, counted) for (pool, _, _), counted in self._at.items())

    def of_projects(self) -> Mapping[ProjectId, QueueCounts]:
        """By project; a project without sessions may be missing."""
        return _sums((project, counted) for (_, project, _), counted in self._at.items())

    def waiting_by_owner(self) -> dict[UserId, int]:
        """Waiting tasks by owner; an owner without any may be missing."""
        found: dict[UserId, int] = {}
        for (_, _, owner), counted in self._at.items():
            found[owner] = found.get(owner, 0) + counted.waiting
        return found

    def owners(self) -> set[tuple[ProjectId, UserId]]:
        """Projects and owners with sessions that wait or run."""
        return {(project, owner) for _, project, owner in self._at}


def _count_key(session: Session) -> CountKey:
    return session.pool, session.project, session.owner


def _counted(session: Session) -> QueueCounts:
    if session.is_pending:
        return QueueCounts(tasks_waiting(session), 0)
    return QueueCounts(0, int(session.tasks is None and session.state in ACTIVE))


def _changed(known: QueueCounts, *, more: QueueCounts, less: QueueCounts = NO_SESSIONS) -> QueueCounts:
    return QueueCounts(known.waiting + more.waiting - less.waiting, known.running + more.running - less.running)


def _sums(counts: Iterable[tuple[K, QueueCounts]]) -> Mapping[K, QueueCounts]:
    found: defaultdict[K, QueueCounts] = defaultdict(lambda: NO_SESSIONS)
    for key, counted in counts:
        found[key] = _changed(found[key], more=counted)
    return found


class ExternalAllocationIndex:
    """Open leases of external allocations, by session."""

    def __init__(self) -> None:
        self._of: dict[SessionId, dict[LeaseId, Lease]] = {}

    def put(self, lease: Lease) -> bool:
        """Add or update a lease; returns True when a lease of an external allocation was released."""
        if lease.session_id is None or lease.kernel_id is not None:
            return False
        held = self._of.setdefault(lease.session_id, {})
        if lease.released_us is None:
            held[lease.id] = lease
        else:
            held.pop(lease.id, None)
        if not held:
            del self._of[lease.session_id]
        return lease.released_us is not None

    def of(self, session_id: SessionId) -> list[Lease]:
        """Open leases of an external allocation, by rank."""
        return sorted(self._of.get(session_id, {}).values(), key=lambda lease: natural_key(lease.id))

    def sessions(self) -> Iterator[SessionId]:
        """External allocations that hold leases."""
        return iter(list(self._of))

    def ends(self) -> Mapping[SessionId, int]:
        """When the leases expire, microseconds UTC."""
        ends = ((name, self.end_of(name)) for name in self._of)
        return {name: end_us for name, end_us in ends if end_us is not None}

    def end_of(self, session_id: SessionId) -> int | None:
        """When the last lease of one expires, microseconds UTC; None when it holds no lease with an end."""
        leases = self._of.get(session_id, {}).values()
        return max((lease.until_us for lease in leases if lease.until_us is not None), default=None)


def external_allocation_row(
    session: Session, leases: Sequence[Lease], *, rows_of: Callable[[Iterable[AgentId]], Sequence[AgentRow]]
) -> RunningRow | None:
    """An external allocation as a row of running sessions: ends with its leases, never preempted.

    With a time limit it may be renewed until then, so that is its planned end. None when it holds no leases.
    """
    if not leases:
        return None
    agents = rows_of(lease.agent_id for lease in leases)
    nodes = {agent.id: agent.node_id for agent in agents}
    kernels = [
        KernelPlacement(rank=rank, agent_id=lease.agent_id, node_id=nodes[lease.agent_id], spec=lease.spec)
        for rank, lease in enumerate(leases)
    ]
    ends_us = max(lease.granted_us if lease.until_us is None else lease.until_us for lease in leases)
    if session.spec.time_limit_ms is not None:
        ends_us = max(lease.granted_us for lease in leases) + 1000 * session.spec.time_limit_ms
    return replace(
        RunningRow.of(session.id, kernels, ends_us=ends_us, agents=agents),
        version=session.version,
        owner=session.owner,
        project=session.project,
        priority=session.priority,
        limit_us=None if session.spec.time_limit_ms is None else ends_us,
        granted_us=min(lease.granted_us for lease in leases),
        key_id=session.key_id,
    )


class LiveKernels:
    """Kernels that have not exited, and the rendezvous ports (MASTER_PORT) that they use, by agent of rank 0.

    A port is in use until all ranks of its attempt have exited: rank 0 may exit before the others.
    """

    def __init__(self) -> None:
        self.by_id: Final[dict[KernelId, Kernel]] = {}
        self._by_agent: dict[AgentId, dict[KernelId, Kernel]] = {}
        self._ranks: dict[KernelId, set[KernelId]] = {}
        """Kernels that have not exited, by rank 0 of their attempt."""
        self._ports: dict[AgentId, dict[KernelId, int]] = {}

    def put(self, kernel: Kernel, *, leader: Kernel | None) -> None:
        """Add or update a kernel; `leader` is rank 0 of its attempt, possibly the kernel itself."""
        leader_id = leader_of(kernel)
        ranks = self._ranks.setdefault(leader_id, set())
        if kernel.state is KernelState.EXITED:
            ranks.discard(kernel.id)
            if self.by_id.pop(kernel.id, None) is not None:
                del self._by_agent[kernel.agent_id][kernel.id]
        else:
            ranks.add(kernel.id)
            self.by_id[kernel.id] = self._by_agent.setdefault(kernel.agent_id, {})[kernel.id] = kernel
        if not ranks:
            del self._ranks[leader_id]
        if leader is None or leader.rendezvous_port is None:
            return
        if ranks:
            self._ports.setdefault(leader.agent_id, {})[leader_id] = leader.rendezvous_port
        else:
            self._ports.get(leader.agent_id, {}).pop(leader_id, None)

    def on(self, agent_id: AgentId) -> Collection[Kernel]:
        """The kernels of an agent that have not exited."""
        return self._by_agent.get(agent_id, {}).values()

    def ports_on(self, agent_id: AgentId) -> Collection[int]:
        """Ports in use on an agent."""
        return self._ports.get(agent_id, {}).values()


def leader_of(kernel: Kernel) -> KernelId:
    """Rank 0 of a kernel's attempt."""
    return kernel_id(kernel.session_id, attempt=kernel.attempt, rank=0)


class LastVerdicts:
    """Verdicts and queue positions from the last scheduling pass. Not durable."""

    def __init__(self) -> None:
        self.verdicts: Mapping[SessionId, Verdict] = {}
        """In queue order."""
        self.promised_us: Mapping[SessionId, int] = {}
        self._positions: dict[SessionId, int] | None = None
        """Made when a position is asked for: a pass over a long queue does not wait for it."""
        self._line: list[SessionId] | None = None

    def store(self, verdicts: Mapping[SessionId, Verdict], *, promised_us: Mapping[SessionId, int]) -> None:
        """Store the results of a pass: verdicts in queue order, and start times promised by reservations."""
        self.verdicts = verdicts
        self.promised_us = promised_us
        self._positions = self._line = None

    def follow(self, session: Session) -> None:
        """Correct the verdict of a session that was held, or released, since the pass."""
        is_held = session.state is SessionState.HELD
        if not is_held and isinstance(self.verdicts, WaitingVerdicts):
            return  # there are no verdicts of held sessions among these
        known = self.verdicts.get(session.id)
        if known is None or is_held == (known.reason is Reason.HELD):
            return
        if is_held:
            self.verdicts = {**self.verdicts, session.id: Verdict(reason=Reason.HELD)}
            self.promised_us = {name: at_us for name, at_us in self.promised_us.items() if name != session.id}
        else:
            self.verdicts = {name: verdict for name, verdict in self.verdicts.items() if name != session.id}
        self._positions = self._line = None

    def line(self) -> Sequence[SessionId]:
        """The sessions in queue order, then those out of line."""
        if self._line is None:
            positions = self._known_positions()
            self._line = [*positions, *(name for name in self.verdicts if name not in positions)]
        return self._line

    def position(self, session_id: SessionId) -> int | None:
        """Position in the queue, from 1; None when the pass did not see the session, or it is out of line."""
        verdict = self.verdicts.get(session_id)
        is_in_line = verdict is not None and verdict.reason not in OUT_OF_LINE
        return self._known_positions().get(session_id) if is_in_line else None

    def _known_positions(self) -> dict[SessionId, int]:
        if self._positions is None:
            line = (name for name, verdict in self.verdicts.items() if verdict.reason not in OUT_OF_LINE)
            self._positions = {name: position for position, name in enumerate(line, start=1)}
        return self._positions


class Retention:
    """Which ended sessions stay in memory: the newest, and those still needed."""

    def __init__(self, most: int) -> None:
        self.kept: Counter[SessionId] = Counter()
        """Sessions pinned by changes in progress, with the number of pins."""
        self._ended: dict[SessionId, None] = {}
        self.most = most

    def note(self, session: Session) -> None:
        """Record a session that was put into memory."""
        self._ended.pop(session.id, None)
        if session.is_ended:
            self._ended[session.id] = None

    def drop(self, session_id: SessionId) -> None:
        """Remove a session that leaves memory."""
        self._ended.pop(session_id, None)

    def surplus(self, is_needed: Callable[[SessionId], bool]) -> list[SessionId]:
        """Remove and return the sessions to evict, oldest first."""
        found: list[SessionId] = []
        while len(self._ended) > self.most:
            oldest = next((known for known in self._ended if known not in self.kept and not is_needed(known)), None)
            if oldest is None:
                break
            del self._ended[oldest]
            found.append(oldest)
        return found


class RunningSessions:
    """Builds the snapshot rows of running sessions from the indexes of the state; holds no data of its own."""

    def __init__(
        self,
        *,
        sessions: Mapping[SessionId, Session],
        kernels_of: Mapping[SessionId, Mapping[KernelId, Kernel]],
        leases: Mapping[LeaseId, Lease],
        external_allocations: ExternalAllocationIndex,
        registry: AgentRegistry,
        forecasts: Forecasts,
    ) -> None:
        self._sessions = sessions
        self._kernels_of = kernels_of
        self._leases = leases
        self._external_allocations = external_allocations
        self._registry = registry
        self._forecasts = forecasts

    def row(self, session_id: SessionId, *, policy: Policy) -> RunningRow | None:
        """The row of a session; None when it holds no devices."""
        session = self._sessions.get(session_id)
        if session is not None and session.is_external_allocation:
            return external_allocation_row(session, self._external_allocations.of(session_id), rows_of=self._rows_of)
        kernels = [
            kernel for kernel in self._kernels_of.get(session_id, {}).values() if kernel.state is not KernelState.EXITED
        ]
        held = [(kernel, self._leases[LeaseId(kernel.id)]) for kernel in kernels if LeaseId(kernel.id) in self._leases]
        if session is None or not held:
            return None
        return running_row(
            session,
            held,
            agents=self._rows_of(kernel.agent_id for kernel, _ in held),
            policy=policy,
            predicted=self._forecasts.of(session_id),
        )

    def _rows_of(self, agents: Iterable[AgentId]) -> list[AgentRow]:
        return [self._registry.row(self._registry.agents[name], is_open=True) for name in dict.fromkeys(agents)]
