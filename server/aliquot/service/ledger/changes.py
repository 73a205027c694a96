"""Ledger changes: captures the inputs of a pass, and encodes each pass as its difference to the previous entry.

Capturing runs on the event loop and must be cheap; comparing runs later, in the recorder's thread.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import compress
from operator import is_not
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.model.plan import Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import Queue, WaitingVerdicts
from aliquot.core.model.snapshot import PendingRow, Request, Snapshot
from aliquot.core.prediction import RunTimes, Workload
from aliquot.service.ledger.entries import Checkpoint, Inputs, PassEntry, VerdictChange
from aliquot.service.state.agents import Blocked
from aliquot.service.state.state import State
from aliquot_schema.billing import Statement
from aliquot_schema.cluster.agents import Agent, KnownSlot
from aliquot_schema.ids import AgentId, DeviceId, LeaseId, NodeId, SessionId
from aliquot_schema.intervals import Intervals
from aliquot_schema.orchestration import Action
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.reasons import Verdict
from aliquot_schema.resources.leases import Kernel, Lease
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState


class CheckpointRecords(Struct, frozen=True, kw_only=True):
    """Records for a checkpoint, except what the snapshot contains."""

    agents: tuple[Agent, ...]
    slots: tuple[KnownSlot, ...]
    policy: PolicyDocument
    sessions: tuple[Session, ...]
    kernels: tuple[Kernel, ...]
    leases: tuple[Lease, ...]
    rates: Mapping[LeaseId, int]
    idle: tuple[Action, ...]
    statements: tuple[Statement, ...] = ()


class Pass(Struct, frozen=True, kw_only=True):
    """One pass, not yet compared with the previous pass_."""

    number: int
    now_us: int
    seed: int
    snapshot: Snapshot
    rules: Policy
    policy: PolicyDocument
    estimates: Mapping[SessionId, RunTimes]
    """Predictions of started sessions changed since the previous pass; of all if there is a checkpoint."""
    workloads: Mapping[SessionId, Workload]
    """Workloads of waiting sessions changed since the previous pass; of all if there is a checkpoint."""
    records: CheckpointRecords | None
    foreign_usage: Blocked
    plan: Plan


def checkpoint_records(state: State) -> CheckpointRecords:
    """The current records for a checkpoint."""
    return CheckpointRecords(
        agents=tuple(state.agents.values()),
        slots=tuple(state.slots.values()),
        policy=state.policy,
        sessions=tuple(_sessions(state)),
        kernels=tuple(state.live_kernels.by_id.values()),
        leases=tuple(lease for on_node in state.open_leases.values() for lease in on_node.values()),
        rates=state.books.rates(),
        idle=state.idle_cases.records(),
        statements=tuple(state.statements.values()),
    )


def estimates_of(state: State) -> dict[SessionId, RunTimes]:
    """Predictions of all sessions that hold devices."""
    started = [name for name, session in state.sessions.items() if not (session.is_ended or session.is_pending)]
    found = {name: state.forecasts.of(name) for name in started}
    return {name: forecast.run_times for name, forecast in found.items() if forecast is not None}


def workloads_of(state: State) -> dict[SessionId, Workload]:
    """Workloads of all waiting sessions."""
    return {name: row.workload for name, row in state.pending.items() if row.workload is not None}


def _sessions(state: State) -> Iterator[Session]:
    waited_for = frozenset(state.waited_for())
    for session in state.sessions.values():
        if not session.is_ended or session.id in waited_for or state.holds_devices(session.id):
            yield session


K = TypeVar("K")
V = TypeVar("V")

CHECKPOINT_EVERY: Final = 1000
"""Entries between two checkpoints."""
NO_VERDICTS: Final[Mapping[SessionId, Verdict]] = {}


class EntryBuilder:
    """Builds ledger entries from passes, in order. Changes of a pass without an entry are part of the next entry."""

    def __init__(self, *, epoch: int, code_version: Callable[[], str]) -> None:
        """`code_version` is called once, in the thread that builds the first entry."""
        self._epoch = epoch
        self._code_version = code_version
        self._length = 0
        """Entries since the last checkpoint."""
        self._open_agents: tuple[AgentId, ...] | None = None
        self._foreign_usage: Blocked | None = None
        self._asked: Mapping[Request, int] = {}
        self._dependencies: Mapping[SessionId, SessionState] = {}
        self._verdicts = NO_VERDICTS
        self._estimates: dict[SessionId, RunTimes] = {}
        """Changes that no entry contains yet."""
        self._workloads: dict[SessionId, Workload] = {}
        """Changes that no entry contains yet."""
        self._run_times: Mapping[Workload, RunTimes] = {}
        self._numbers: dict[Workload, int] = {}
        """Numbers of the workloads since the last checkpoint. Entries hold no names of programs."""

    @property
    def is_long(self) -> bool:
        """Whether a checkpoint is due."""
        return self._length >= CHECKPOINT_EVERY

    def entries(self, passes: Iterable[Pass], lost: int) -> list[PassEntry]:
        """The entries of some passes; the first pass_ records `lost`."""
        made = []
        for pass_ in passes:
            entry = self.entry(pass_, lost=lost)
            if entry is not None:
                made.append(entry)
                lost = 0
        return made

    def entry(self, pass_: Pass, *, lost: int) -> PassEntry | None:
        """The entry of a pass; None when it decided nothing and no verdict changed."""
        if pass_.records is not None:
            self._reset()
        self._estimates.update(pass_.estimates)
        self._workloads.update(pass_.workloads)
        verdicts = verdict_changes(pass_.snapshot, pass_.plan.verdicts, before=self._verdicts)
        if pass_.records is None and not (verdicts or decides(pass_.plan) or lost):
            return None
        entry = PassEntry(
            number=pass_.number,
            now_us=pass_.now_us,
            revision=pass_.snapshot.revision,
            seed=pass_.seed,
            epoch=self._epoch,
            code_version=self._version,
            lost=lost,
            inputs=self._inputs(pass_),
            verdicts=verdicts,
            plan=replace(pass_.plan, verdicts={}),
            checkpoint=None if pass_.records is None else checkpoint_of(pass_.records, pass_.snapshot),
        )
        self._length += 1
        self._verdicts = pass_.plan.verdicts
        self._asked, self._dependencies = pass_.snapshot.asked, pass_.snapshot.dependencies
        self._estimates, self._workloads = {}, {}
        self._run_times = pass_.snapshot.run_times
        return entry

    @cached_property
    def _version(self) -> str:
        return self._code_version()

    def _reset(self) -> None:
        self._length = 0
        self._open_agents, self._foreign_usage, self._asked, self._dependencies = None, None, {}, {}
        self._verdicts, self._estimates, self._workloads = NO_VERDICTS, {}, {}
        self._run_times, self._numbers = {}, {}

    def _inputs(self, pass_: Pass) -> Inputs:
        snapshot = pass_.snapshot
        agents = tuple(agent.id for agent in snapshot.agents if agent.is_open)
        changed = None if agents == self._open_agents else agents
        self._open_agents = agents
        foreign_usage = None if pass_.foreign_usage == self._foreign_usage else _listed(pass_.foreign_usage)
        self._foreign_usage = pass_.foreign_usage
        asked = changes(snapshot.asked, before=self._asked)
        return Inputs(
            open_agents=changed,
            foreign_usage=foreign_usage,
            estimates=tuple((name, found.mean_ms) for name, found in self._estimates.items()),
            medians=tuple((name, found.median_ms) for name, found in self._estimates.items()),
            workloads=tuple((name, self._number(workload)) for name, workload in self._workloads.items()),
            run_times=tuple((self._number(workload), found) for workload, found in self._new_run_times(snapshot)),
            backlogs=tuple(snapshot.backlogs.items()),
            asked=tuple((request, count or 0) for request, count in asked.items()),
            dependencies=tuple(changes(snapshot.dependencies, before=self._dependencies).items()),
            order=pass_.rules.order if pass_.rules.order != pass_.policy.order else None,
            placement=pass_.rules.placement if pass_.rules.placement != pass_.policy.placement else None,
        )

    def _new_run_times(self, snapshot: Snapshot) -> Iterable[tuple[Workload, RunTimes | None]]:
        return (
            () if snapshot.run_times is self._run_times else changes(snapshot.run_times, before=self._run_times).items()
        )

    def _number(self, workload: Workload) -> int:
        return self._numbers.setdefault(workload, len(self._numbers))


def decides(plan: Plan) -> bool:
    """Whether a plan has any effect."""
    return bool(
        plan.placements or plan.failures or plan.fallbacks or plan.evictions or plan.bookings or plan.extensions
    )


def changes(now: Mapping[K, V], *, before: Mapping[K, V]) -> dict[K, V | None]:
    """New and changed items of a mapping; None for removed keys."""
    if now == before:
        return {}
    found: dict[K, V | None] = {key: value for key, value in now.items() if before.get(key) != value}
    found.update((key, None) for key in before if key not in now)
    return found


def verdict_changes(
    snapshot: Snapshot, now: Mapping[SessionId, Verdict], *, before: Mapping[SessionId, Verdict]
) -> tuple[VerdictChange, ...]:
    """Changed verdicts, by position in the queue of the snapshot.

    Similar sessions share a verdict object, so comparisons are cached by object identity.
    """
    compared: dict[tuple[int, int], bool] = {}
    found: dict[int, tuple[Verdict | None, list[tuple[int, int]]]] = {}
    news, olds = _by_row(now, snapshot.queue), _by_row(before, snapshot.queue)
    for position in compress(range(len(news)), map(is_not, news, olds)):
        new, old = news[position], olds[position]
        key = id(new), id(old)
        if key not in compared:
            compared[key] = new == old
        if not compared[key]:
            _extend(found.setdefault(id(new), (new, []))[1], position)
    return tuple(VerdictChange(places=Intervals(tuple(spans)), verdict=verdict) for verdict, spans in found.values())


def _by_row(verdicts: Mapping[SessionId, Verdict], queue: Sequence[PendingRow]) -> Sequence[Verdict | None]:
    """The verdict of each row; None = it has none."""
    if isinstance(verdicts, WaitingVerdicts) and isinstance(queue, Queue):
        known = verdicts.by_row(queue.names)
        if known is not None:
            return known
    return [verdicts.get(row.session_id) for row in queue]


def checkpoint_of(records: CheckpointRecords, snapshot: Snapshot) -> Checkpoint:
    """The checkpoint of a snapshot and the records captured with it."""
    return Checkpoint(
        agents=records.agents,
        slots=records.slots,
        policy=records.policy,
        quotas=tuple(snapshot.quotas.values()),
        sessions=tuple(_redacted(session) for session in records.sessions),
        kernels=records.kernels,
        leases=records.leases,
        balances=tuple((project, user, balance) for (project, user), balance in snapshot.usage.balances.items()),
        half_life_ms=snapshot.usage.half_life_ms,
        rates=records.rates,
        bookings=snapshot.bookings,
        idle=records.idle,
        statements=records.statements,
    )


def _listed(blocked: Blocked) -> tuple[tuple[NodeId, tuple[tuple[DeviceId, int], ...]], ...]:
    return tuple((node_id, tuple(budgets.items())) for node_id, budgets in blocked.items())


def _extend(spans: list[tuple[int, int]], position: int) -> None:
    """Add a position to the spans; positions must be ascending."""
    if spans and spans[-1][1] == position - 1:
        spans[-1] = spans[-1][0], position
    else:
        spans.append((position, position))


def _redacted(session: Session) -> Session:
    """The session without command and environment: decisions do not use them, and they may contain secrets."""
    return replace(session, spec=replace(session.spec, argv=(), environment={}))
