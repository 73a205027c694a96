"""Changes: a pass compared with the one written down before it, which is what an entry holds."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Final, TypeVar

from aliquot.core.plan import Plan
from aliquot.core.snapshot import Request, Snapshot
from aliquot.service.external import Blocked
from aliquot.service.ledger.capture import Pass, Standing
from aliquot.service.ledger.entries import Checkpoint, Inputs, PassEntry, VerdictChange
from aliquot_schema.ids import AgentId, DeviceId, NodeId, SessionId
from aliquot_schema.intervals import Intervals
from aliquot_schema.reasons import Verdict
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState

K = TypeVar("K")
V = TypeVar("V")

CHECKPOINT_EVERY: Final = 1000
"""Entries."""
NO_VERDICTS: Final[Mapping[SessionId, Verdict]] = {}


class Sequel:
    """Makes entries of passes, in their order. What is left out is part of the next comparison."""

    def __init__(self, *, epoch: int, code_version: Callable[[], str], length_max: int = CHECKPOINT_EVERY) -> None:
        """`code_version` is called once, where the first entry is made."""
        self._epoch = epoch
        self._code_version = code_version
        self._length_max = length_max
        self._length = 0
        """Entries since the last checkpoint."""
        self._open_agents: tuple[AgentId, ...] | None = None
        self._external: Blocked | None = None
        self._asked: Mapping[Request, int] = {}
        self._dependencies: Mapping[SessionId, SessionState] = {}
        self._verdicts = NO_VERDICTS
        self._estimates: dict[SessionId, int] = {}
        """Not written down yet."""

    @property
    def is_long(self) -> bool:
        """Whether it is time for a checkpoint."""
        return self._length >= self._length_max

    def entries(self, passes: Iterable[Pass], lost: int) -> list[PassEntry]:
        """What to write down of some passes; `lost` is told by the first entry."""
        made = []
        for one in passes:
            entry = self.entry(one, lost=lost)
            if entry is not None:
                made.append(entry)
                lost = 0
        return made

    def entry(self, one: Pass, *, lost: int) -> PassEntry | None:
        """What to write down of a pass; None when it decided nothing, and judged everybody as before."""
        if one.standing is not None:
            self._begin_anew()
        self._estimates.update(one.estimates)
        verdicts = verdict_changes(one.snapshot, one.plan.verdicts, before=self._verdicts)
        if one.standing is None and not (verdicts or decides(one.plan) or lost):
            return None
        entry = PassEntry(
            number=one.number,
            now_us=one.now_us,
            revision=one.snapshot.revision,
            seed=one.seed,
            epoch=self._epoch,
            code_version=self._version,
            lost=lost,
            inputs=self._inputs(one),
            verdicts=verdicts,
            plan=replace(one.plan, verdicts={}),
            checkpoint=None if one.standing is None else checkpoint_of(one.standing, one.snapshot),
        )
        self._length += 1
        self._verdicts = one.plan.verdicts
        self._asked, self._dependencies = one.snapshot.asked, one.snapshot.dependencies
        self._estimates = {}
        return entry

    @cached_property
    def _version(self) -> str:
        return self._code_version()

    def _begin_anew(self) -> None:
        self._length = 0
        self._open_agents, self._external, self._asked, self._dependencies = None, None, {}, {}
        self._verdicts, self._estimates = NO_VERDICTS, {}

    def _inputs(self, one: Pass) -> Inputs:
        snapshot = one.snapshot
        agents = tuple(agent.id for agent in snapshot.agents if agent.is_open)
        changed = None if agents == self._open_agents else agents
        self._open_agents = agents
        external = None if one.external == self._external else _listed(one.external)
        self._external = one.external
        asked = changes(snapshot.asked, before=self._asked)
        return Inputs(
            open_agents=changed,
            external=external,
            estimates=tuple(self._estimates.items()),
            asked=tuple((request, count or 0) for request, count in asked.items()),
            dependencies=tuple(changes(snapshot.dependencies, before=self._dependencies).items()),
            order=one.rules.order if one.rules.order != one.policy.order else None,
            placement=one.rules.placement if one.rules.placement != one.policy.placement else None,
        )


def decides(plan: Plan) -> bool:
    """Whether anything follows from a plan."""
    return bool(plan.placements or plan.failures or plan.fallbacks or plan.evictions)


def changes(now: Mapping[K, V], *, before: Mapping[K, V]) -> dict[K, V | None]:
    """What is new or other in a mapping; None for what is gone."""
    if now == before:
        return {}
    found: dict[K, V | None] = {key: value for key, value in now.items() if before.get(key) != value}
    found.update((key, None) for key in before if key not in now)
    return found


def verdict_changes(
    snapshot: Snapshot, now: Mapping[SessionId, Verdict], *, before: Mapping[SessionId, Verdict]
) -> tuple[VerdictChange, ...]:
    """Who in the queue of a snapshot waits for another reason than before.

    Sessions of one kind share a verdict, so that most comparisons are of things that were compared before.
    """
    compared: dict[tuple[int, int], bool] = {}
    found: dict[int, tuple[Verdict | None, list[tuple[int, int]]]] = {}
    for place, row in enumerate(snapshot.queue):
        new, old = now.get(row.session_id), before.get(row.session_id)
        if new is old:
            continue
        key = id(new), id(old)
        if key not in compared:
            compared[key] = new == old
        if not compared[key]:
            _extend(found.setdefault(id(new), (new, []))[1], place)
    return tuple(VerdictChange(places=Intervals(tuple(spans)), verdict=verdict) for verdict, spans in found.values())


def checkpoint_of(standing: Standing, snapshot: Snapshot) -> Checkpoint:
    """The state, as a snapshot and what it was made of show it."""
    return Checkpoint(
        agents=standing.agents,
        slots=standing.slots,
        policy=standing.policy,
        quotas=tuple(snapshot.quotas.values()),
        sessions=tuple(_bare(session) for session in standing.sessions),
        kernels=standing.kernels,
        leases=standing.leases,
        balances=tuple((project, user, balance) for (project, user), balance in snapshot.usage.balances.items()),
        half_life_ms=snapshot.usage.half_life_ms,
        rates=standing.rates,
    )


def _listed(blocked: Blocked) -> tuple[tuple[NodeId, tuple[tuple[DeviceId, int], ...]], ...]:
    return tuple((node_id, tuple(budgets.items())) for node_id, budgets in blocked.items())


def _extend(spans: list[tuple[int, int]], place: int) -> None:
    """Places come in ascending order."""
    if spans and spans[-1][1] == place - 1:
        spans[-1] = spans[-1][0], place
    else:
        spans.append((place, place))


def _bare(session: Session) -> Session:
    """Without command and environment: no decision goes by them, and they may hold secrets."""
    return replace(session, spec=replace(session.spec, argv=(), environment={}))
