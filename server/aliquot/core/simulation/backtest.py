"""Backtest: a recorded history under the policies of the time and under others, compared session by session."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from aliquot.core.foresight.what_if import agents_like
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow
from aliquot.core.simulation.history_run import run_history
from aliquot.core.simulation.recorded_history import (
    AttemptEnd,
    ClusterLoad,
    HistoryOutcome,
    HistoryRunSettings,
    RecordedHistory,
    RecordedSession,
)
from aliquot.core.simulation.report import BOUND_S, HOUR_MS, Floats, jain
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import AgentId, QuotaId
from aliquot_schema.quotas import Quota
from aliquot_schema.resources.slots import MILLI
from aliquot_schema.views.backtests import (
    BASE_LABEL,
    BacktestDifference,
    BacktestGroup,
    BacktestMove,
    BacktestReport,
    BacktestRow,
    BacktestSpread,
)

MOVED_S: Final = 60.0
"""Smaller changes of a wait are not counted."""
SHOWN_MAX: Final = 20
PARTS: Final = 100
"""Parts of the time in plots."""
SECOND_US: Final = 1_000_000


class Variant(Struct, frozen=True, kw_only=True):
    """One run beside the policies of the time."""

    label: str
    policy: Policy | None = None
    """None = the policies of the time."""
    like: AgentId | None = None
    """An agent; agents like it are added, each on a node of its own."""
    count: int = 0
    """How many."""
    without: tuple[AgentId, ...] = ()
    """Agents that are left out."""
    changed_quotas: tuple[Quota, ...] = ()
    """Quotas that hold all the time, instead of those of the same subjects."""

    def quotas(self, quotas: Mapping[QuotaId, Quota]) -> Mapping[QuotaId, Quota]:
        """The quotas of the run."""
        return {**quotas, **{quota.id: quota for quota in self.changed_quotas}} if self.changed_quotas else quotas

    def agents(self, agents: tuple[AgentRow, ...], *, model: AgentRow | None = None) -> tuple[AgentRow, ...]:
        """The agents of the run. Added ones take sessions also while the one that they are like does not.

        Args:
            model: the one that they are like, while it is not among the agents.
        """
        model = next((agent for agent in agents if agent.id == self.like), model)
        more = () if model is None else agents_like(model, count=self.count)
        return (*(agent for agent in agents if agent.id not in self.without), *more)


def backtest(
    history: RecordedHistory, variants: Sequence[Variant], *, on_progress: Callable[[float], None] = lambda _: None
) -> BacktestReport:
    """Run a history under the policies of the time and as each variant says.

    Raises:
        InvalidRequest: no session was submitted, started and ended in the time.
    """
    if not history.counted:
        raise InvalidRequest("no session was submitted in this time and has ended; choose a longer time", field="since")
    settings = [
        HistoryRunSettings(exact=True),
        *(
            HistoryRunSettings(
                policy=one.policy, agents=partial(one.agents, model=history.agent(one.like)), quotas=one.quotas
            )
            for one in variants
        ),
    ]
    outcomes = [
        run_history(history, one, on_progress=_part_of(on_progress, number, of=len(settings)))
        for number, one in enumerate(settings)
    ]
    labels = [BASE_LABEL, *(one.label for one in variants)]
    runs = tuple(zip(labels, outcomes, strict=True))
    different = differences(history, outcomes[0])
    started = sum(bool(session.attempts) for session in history.counted)
    return BacktestReport(
        since_us=history.since_us,
        until_us=history.until_us,
        sessions=len(history.counted),
        reproduced=started - len(different),
        different_count=len(different),
        different=different[:SHOWN_MAX],
        notes=(*history.notes, *_not_added(history, variants), *_never_started(history, runs)),
        rows=rows_of(history, runs),
    )


def rows_of(history: RecordedHistory, runs: Sequence[tuple[str, HistoryOutcome]]) -> tuple[BacktestRow, ...]:
    """The figures of runs with their labels; winners and losers are compared with the first one."""
    base = _waits(history, runs[0][1])
    return tuple(_row(label, history, outcome, base) for label, outcome in runs)


def _not_added(history: RecordedHistory, variants: Iterable[Variant]) -> Iterable[str]:
    """Agents that could not be added."""
    for one in variants:
        if one.like is not None and history.agent(one.like) is None:
            yield f"{one.label}: no agents were added, as {one.like} was not there in this time"


def _never_started(history: RecordedHistory, runs: Iterable[tuple[str, HistoryOutcome]]) -> Iterable[str]:
    """What waits do not show: sessions that are still waiting when nothing more happens."""
    for label, outcome in runs:
        if count := sum(session.name not in outcome.granted_us for session in history.counted):
            yield f"{label}: sessions that never start: {count}; they count as waiting until the end of the run"


def _part_of(on_progress: Callable[[float], None], number: int, *, of: int) -> Callable[[float], None]:
    return lambda part: on_progress((number + part) / of)


def differences(history: RecordedHistory, outcome: HistoryOutcome) -> tuple[BacktestDifference, ...]:
    """Counted sessions that do not start when they did, by their recorded start, each with a reason."""
    found: list[BacktestDifference] = []
    moved = [
        (session.attempts[0].granted_us, session)
        for session in history.counted
        if session.attempts[0].granted_us != outcome.granted_us.get(session.name)
    ]
    for was_us, session in sorted(moved, key=lambda pair: (pair[0], pair[1].name)):
        now_us = outcome.granted_us.get(session.name)
        found.append(
            BacktestDifference(
                session_id=session.name,
                owner=session.owner,
                recorded=(was_us - history.begins_us) / SECOND_US,
                simulated=None if now_us is None else (now_us - history.begins_us) / SECOND_US,
                reason=_reason(session, is_first=not found),
            )
        )
    return tuple(found)


def _reason(session: RecordedSession, *, is_first: bool) -> str:
    if session.is_amended:
        return "it was changed, held or released by hand while it waited"
    if any(attempt.end is AttemptEnd.INTERRUPTED for attempt in session.attempts):
        return "a failure or an operator interrupted it"
    if not is_first:
        return "sessions before it started at other times"
    return "something was done by hand, or between a decision and its commit"


def _waits(history: RecordedHistory, outcome: HistoryOutcome) -> Floats:
    """[sessions] seconds from the submission to the first start; of those that do not start, to the end of the run."""
    last_us = max((*outcome.granted_us.values(), history.until_us))
    starts = [outcome.granted_us.get(session.name, last_us) for session in history.counted]
    submitted = [session.submitted_us for session in history.counted]
    waits: Floats = (np.array(starts, dtype=np.float64) - np.array(submitted, dtype=np.float64)) / SECOND_US
    return np.maximum(waits, 0.0)


def _row(label: str, history: RecordedHistory, outcome: HistoryOutcome, base: Floats) -> BacktestRow:
    sessions = history.counted
    waits = _waits(history, outcome)
    runs = np.array([(session.work_us or 0) / SECOND_US for session in sessions])
    ends = [outcome.ended_us.get(session.name) for session in sessions]
    done = [
        waits[place] + runs[place] if end_us is None else (end_us - session.submitted_us) / SECOND_US
        for place, (session, end_us) in enumerate(zip(sessions, ends, strict=True))
    ]
    completion: Floats = np.array(done, dtype=np.float64)
    slowdown = np.maximum(completion / np.maximum(runs, BOUND_S), 1.0)
    hours = np.array([session.milli for session in sessions]) / MILLI * runs / 3600
    tables = [
        _groups(kind, sessions, hours=hours, waits=waits, base=base, completion=completion, slowdown=slowdown)
        for kind in ("user", "project")
    ]
    gains = waits - base
    lost = sum(outcome.lost_ms.get(session.name, 0) * session.milli for session in sessions)
    held, queued = _utilization(outcome.load, history)
    return BacktestRow(
        label=label,
        sessions=len(sessions),
        wait=_spread(waits),
        completion=_spread(completion),
        slowdown=float(slowdown.mean()),
        utilization=held,
        utilization_queued=queued,
        preemptions=sum(outcome.preemptions.values()),
        lost_gpu_hours=lost / (MILLI * HOUR_MS),
        fairness_users=jain([group.slowdown for group in tables[0]]),
        fairness_projects=jain([group.slowdown for group in tables[1]]),
        groups=(*tables[0], *tables[1]),
        winners=_moves(sessions, base, waits, np.argsort(gains, kind="stable"), gains < -MOVED_S),
        winners_count=int((gains < -MOVED_S).sum()),
        losers=_moves(sessions, base, waits, np.argsort(-gains, kind="stable"), gains > MOVED_S),
        losers_count=int((gains > MOVED_S).sum()),
        utilization_over_time=_over_time(outcome.load, history, _held_part(outcome.load)),
        waiting_over_time=_over_time(outcome.load, history, np.array(outcome.load.waiting, dtype=np.float64)),
        wait_quantiles=tuple(np.quantile(waits, np.linspace(0, 1, 101)).tolist()),
        assumed=len(outcome.assumed),
        exact=outcome.exact,
    )


def _spread(seconds: Floats) -> BacktestSpread:
    return BacktestSpread(mean=float(seconds.mean()), p95=float(np.quantile(seconds, 0.95)), max=float(seconds.max()))


def _groups(
    kind: str,
    sessions: Sequence[RecordedSession],
    *,
    hours: Floats,
    waits: Floats,
    base: Floats,
    completion: Floats,
    slowdown: Floats,
) -> tuple[BacktestGroup, ...]:
    members: dict[str, list[int]] = {}
    for place, session in enumerate(sessions):
        members.setdefault(session.owner if kind == "user" else session.project, []).append(place)
    found = [
        BacktestGroup(
            kind=kind,
            name=name,
            sessions=len(own),
            gpu_hours=float(hours[own].sum()),
            wait=float(waits[own].mean()),
            wait_before=float(base[own].mean()),
            completion=float(completion[own].mean()),
            slowdown=float(slowdown[own].mean()),
        )
        for name, own in members.items()
    ]
    return tuple(sorted(found, key=lambda group: (-group.gpu_hours, group.name)))


def _moves(
    sessions: Sequence[RecordedSession], base: Floats, waits: Floats, order: Iterable[int], moved: npt.NDArray[np.bool_]
) -> tuple[BacktestMove, ...]:
    places = [int(place) for place in order if moved[int(place)]][:SHOWN_MAX]
    return tuple(
        BacktestMove(
            session_id=sessions[place].name,
            owner=sessions[place].owner,
            project=sessions[place].project,
            wait_before=float(base[place]),
            wait_after=float(waits[place]),
        )
        for place in places
    )


def _held_part(load: ClusterLoad) -> Floats:
    capacity = np.array(load.capacity_milli, dtype=np.float64)
    held = np.array(load.held_milli, dtype=np.float64)
    part: Floats = np.divide(held, capacity, out=np.zeros_like(held), where=capacity > 0)
    return part


def _utilization(load: ClusterLoad, history: RecordedHistory) -> tuple[float, float]:
    """Part of the capacity that sessions held in the time of the record: always, and while sessions waited."""
    at = np.clip(np.array([*load.at_us, history.until_us], dtype=np.float64), history.since_us, history.until_us)
    spans = np.maximum(np.diff(at), 0.0)
    held, capacity = np.array(load.held_milli, dtype=np.float64), np.array(load.capacity_milli, dtype=np.float64)
    queued = spans * (np.array(load.waiting) > 0)
    parts = [float(held @ weights) / max(float(capacity @ weights), 1.0) for weights in (spans, queued)]
    return parts[0], parts[1]


def _over_time(load: ClusterLoad, history: RecordedHistory, values: Floats) -> tuple[float, ...]:
    """Time-weighted means over equal parts of the time of the record."""
    at = np.clip(np.array([*load.at_us, history.until_us], dtype=np.float64), history.since_us, history.until_us)
    at = np.maximum.accumulate(at)
    sums = np.concatenate([[0.0], np.cumsum(values * np.diff(at))])
    edges = np.linspace(history.since_us, max(history.until_us, history.since_us + 1), PARTS + 1)
    means: Floats = np.diff(np.interp(edges, at, sums)) / np.diff(edges)
    return tuple(means.tolist())
