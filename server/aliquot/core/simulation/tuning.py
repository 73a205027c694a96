"""Tuning: searches the weights of the order on one part of a recorded history, and checks the best on a later part.

The search is a coordinate search with multiplicative steps: each weight in turn is multiplied and divided by the step,
a better policy is kept, and the step shrinks when no weight helps any more. The order of the weights comes from the
seed, so that one seed is one search. Policies are compared by the geometric mean of three ratios to the present policy:
mean wait, 95th percentile of the waits and mean bounded slowdown. A policy that lets the longest wait grow, or that
loses fairness or utilization, is out of bounds, however short its waits are.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.model.policy import Policy
from aliquot.core.placement.scoreboard import split_mix_64
from aliquot.core.simulation.backtest import MOVED_S, rows_of
from aliquot.core.simulation.history_run import run_history
from aliquot.core.simulation.recorded_history import HistoryOutcome, HistoryRunSettings, RecordedHistory
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.policies import DAY_MS, PolicyDocument, Weights
from aliquot_schema.resources.units import format_duration
from aliquot_schema.views.backtests import BacktestRow, TuningChange, TuningReport

SEARCHED: Final[Mapping[str, tuple[str, ...]]] = {
    "fair_share": ("age", "fair", "short", "short_half_ms"),
    "relative_age": ("age", "short", "short_half_ms"),
    "sjf": ("sjf_age_pct",),
}
"""Weights that are searched, by order. What priorities and bounds on waits are worth is for operators to say."""
BOUNDS: Final[Mapping[str, tuple[int, int]]] = {
    "age": (1, 200),
    "fair": (0, 200),
    "short": (0, 200),
    "short_half_ms": (600_000, 7 * DAY_MS),
    "sjf_age_pct": (1, 100),
}
"""Inclusive bounds of the search. The weight of waiting is at least 1, which prevents starvation."""
BEFORE: Final = "present policy"
AFTER: Final = "proposed policy"
STEP_FIRST: Final = 4.0
STEP_LAST: Final = 1.25
RUNS_BESIDE: Final = 3
"""Runs beside those that are tried: of the present policy on each part, and of the best one on the later part."""
SESSIONS_MIN: Final = 20
"""Sessions in each part of the history, at least."""
SLACK_S: Final = 60.0
"""Added to waits before they are compared, so that seconds are no reason for a change."""
GAIN_MIN: Final = 0.02
"""A policy has to be better by this part on the later sessions to be proposed."""
LONGEST_RATIO_MAX: Final = 1.1
LONGEST_S_SLACK: Final = 1800.0
FAIRNESS_LOSS_MAX: Final = 0.02
UTILIZATION_LOSS_MAX: Final = 0.01


class TuningTask(Struct, frozen=True, kw_only=True):
    """What is searched, and how long."""

    document: PolicyDocument
    """The present policy."""
    tries: int
    """Policies that are tried on the first part, at most."""
    seed: int = 0


def check_order(order: str) -> None:
    """Check that an order has weights that can be searched.

    Raises:
        InvalidRequest: it has none.
    """
    if order not in SEARCHED:
        known = ", ".join(sorted(SEARCHED))
        raise InvalidRequest(f"the order {order} has no weights to tune; those of {known} can be tuned", field="order")


def tune(
    first: RecordedHistory,
    later: RecordedHistory,
    task: TuningTask,
    *,
    on_progress: Callable[[float], None] = lambda _: None,
) -> TuningReport:
    """Search on the first part, and compare the best with the present policy on the later one.

    Raises:
        InvalidRequest: the order has no weights, or one of the parts has too few sessions.
    """
    check_order(task.document.order)
    for part, name in ((first, "first"), (later, "later")):
        if len(part.counted) < SESSIONS_MIN:
            raise InvalidRequest(
                f"the {name} part of the time has {len(part.counted)} sessions that started and ended; "
                f"{SESSIONS_MIN} are needed, so {_way_to_more(first, later)}",
                field="since",
            )
    search = _Search(first, task, on_progress=on_progress)
    best = search.run()
    outcomes = [search.outcome(later, weights) for weights in (task.document.weights, best)]
    before, after = rows_of(later, ((BEFORE, outcomes[0]), (AFTER, outcomes[1])))
    changes = tuple(_changes(task.document.weights, best))
    is_better, verdict = _judged(before, after, changes)
    worse = (group for group in after.groups if group.kind == "user" and group.wait > group.wait_before + MOVED_S)
    return TuningReport(
        since_us=first.since_us,
        split_us=later.since_us,
        until_us=later.until_us,
        base_version=task.document.version,
        tries=search.tried,
        changes=changes,
        is_better=is_better,
        verdict=verdict,
        searched=search.rows,
        unseen=(before, after),
        losers=tuple(sorted(worse, key=lambda group: (group.wait_before - group.wait, group.name))),
        notes=tuple(f"{part} part: {note}" for part, one in (("first", first), ("later", later)) for note in one.notes),
    )


def _way_to_more(first: RecordedHistory, later: RecordedHistory) -> str:
    """What to change where one of the parts has too few sessions."""
    if len(first.counted) + len(later.counted) < 2 * SESSIONS_MIN:
        return "choose a longer time"
    than = "longer" if len(later.counted) < len(first.counted) else "shorter"
    return f"keep a {than} last part for the check (`split`, `--unseen` of `aliquot tune`)"


def cost(row: BacktestRow, base: BacktestRow) -> float:
    """Geometric mean of the ratios of mean wait, 95th percentile and slowdown to those of another run; below 1 =
    better."""
    ratios = (
        (row.wait.mean + SLACK_S) / (base.wait.mean + SLACK_S),
        (row.wait.p95 + SLACK_S) / (base.wait.p95 + SLACK_S),
        row.slowdown / base.slowdown,
    )
    return float((ratios[0] * ratios[1] * ratios[2]) ** (1 / 3))


def out_of_bounds(row: BacktestRow, base: BacktestRow) -> str | None:
    """Why a run is unacceptable beside another one, however short its waits are; None = it is not."""
    if row.wait.max > base.wait.max * LONGEST_RATIO_MAX + LONGEST_S_SLACK:
        return f"the longest wait grows from {_duration(base.wait.max)} to {_duration(row.wait.max)}"
    if row.fairness_users < base.fairness_users - FAIRNESS_LOSS_MAX:
        return f"fairness among users falls from {base.fairness_users:.2f} to {row.fairness_users:.2f}"
    if row.utilization < base.utilization - UTILIZATION_LOSS_MAX:
        return f"the GPUs in use fall from {100 * base.utilization:.1f} % to {100 * row.utilization:.1f} %"
    return None


class _Search:
    """Coordinate search over the weights."""

    def __init__(self, history: RecordedHistory, task: TuningTask, *, on_progress: Callable[[float], None]) -> None:
        self._history = history
        self._task = task
        self._on_progress = on_progress
        self._seen: set[Weights] = {task.document.weights}
        self._runs = 0
        self._base = self.outcome(history, task.document.weights)
        [row] = rows_of(history, ((BEFORE, self._base),))
        self.rows: tuple[BacktestRow, ...] = (row, row)
        """Before and after, on the part that is searched."""
        self.tried = 0

    def run(self) -> Weights:
        """The best weights found."""
        best, best_cost, step = self._task.document.weights, 1.0, STEP_FIRST
        while step >= STEP_LAST:
            improved = False
            for weights in self._steps(best, step):
                if self.tried == self._task.tries:
                    return best
                row = self._row(weights)
                if out_of_bounds(row, self.rows[0]) is None and cost(row, self.rows[0]) < best_cost:
                    best, best_cost, improved = weights, cost(row, self.rows[0]), True
                    self.rows = (self.rows[0], row)
                    break
            if not improved:
                step **= 0.5
        return best

    def outcome(self, history: RecordedHistory, weights: Weights) -> HistoryOutcome:
        """A run under other weights. The policy's version differs from all recorded ones, so that nothing cached is
        taken for its own."""
        done, document = self._runs, self._task.document
        self._runs += 1
        return run_history(
            history,
            HistoryRunSettings(policy=Policy.of(replace(document, weights=weights, version=document.version + 1))),
            on_progress=lambda part: self._on_progress((done + part) / (self._task.tries + RUNS_BESIDE)),
        )

    def _row(self, weights: Weights) -> BacktestRow:
        self._seen.add(weights)
        self.tried += 1
        outcome = self.outcome(self._history, weights)
        return rows_of(self._history, ((BEFORE, self._base), (AFTER, outcome)))[1]

    def _steps(self, weights: Weights, step: float) -> Iterator[Weights]:
        """Neighbours that have not been tried, in an order that depends on the seed."""
        names = SEARCHED[self._task.document.order]
        moves = [(name, factor) for name in names for factor in (step, 1 / step)]
        moves.sort(key=lambda move: split_mix_64(self._task.seed + self.tried, _key_of(move)))
        for name, factor in moves:
            changed = replace(weights, **{name: _moved(getattr(weights, name), factor, *BOUNDS[name])})
            if changed not in self._seen:
                yield changed


def _key_of(move: tuple[str, float]) -> int:
    """A number of a move that is the same on every machine."""
    name, factor = move
    return int.from_bytes(name.encode()) * 2 + (factor > 1)


def _moved(value: int, factor: float, least: int, most: int) -> int:
    moved = round(value * factor)
    if moved == value:
        moved += 1 if factor > 1 else -1
    return min(max(moved, least), most)


def _changes(before: Weights, after: Weights) -> Iterator[TuningChange]:
    for name in Weights.__struct_fields__:
        was, now = getattr(before, name), getattr(after, name)
        if was != now:
            yield TuningChange(
                field=name,
                name=f"weights.{name.removesuffix('_ms')}",
                value=now,
                before=_text(name, was),
                after=_text(name, now),
            )


def _text(field: str, value: int) -> str:
    return format_duration(round(value / 1000)) if field.endswith("_ms") else str(value)


def _judged(before: BacktestRow, after: BacktestRow, changes: tuple[TuningChange, ...]) -> tuple[bool, str]:
    if not changes:
        return False, "No weights were found that are better than the present ones: keep the policy."
    reason, gain = out_of_bounds(after, before), 1 - cost(after, before)
    if reason is not None:
        return False, f"On the later sessions {reason}: keep the present policy."
    waits = f"mean wait {_duration(before.wait.mean)} -> {_duration(after.wait.mean)}"
    if gain < GAIN_MIN:
        return False, f"What helped on the first part does not help on the later sessions ({waits}): keep the policy."
    figures = "mean, 95th percentile and slowdown together"
    return True, f"Better on sessions that the search has not seen: {waits}; {figures} are {100 * gain:.0f} % better."


def _duration(seconds: float) -> str:
    return format_duration(round(seconds))
