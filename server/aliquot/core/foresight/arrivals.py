"""Arrival history: possible future submissions, copied from whole weeks of the past.

Each future week repeats a random one of the last four. With less than a week of history, days are repeated; with less
than a day, nothing arrives. Sessions that were canceled while they waited leave the queue after the same time.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Final, NamedTuple, overload

from msgspec.structs import replace

from aliquot.core.foresight.engine import Arrival
from aliquot.core.model.snapshot import PendingRow
from aliquot.core.placement.scoreboard import split_mix_64
from aliquot.core.prediction import Workload
from aliquot_schema.ids import SessionId, task_id, task_parts
from aliquot_schema.intervals import Intervals
from aliquot_schema.states import SessionState

HOUR_US: Final = 3_600_000_000
DAY_US: Final = 24 * HOUR_US
WEEK_US: Final = 7 * DAY_US
PERIODS_MAX: Final = 4
"""The weeks, or days, that one to come is chosen from."""
BLOCKS_MAX: Final = 1024
KEPT_US: Final = (PERIODS_MAX + 1) * WEEK_US
TASKS_MAX: Final = 1000
"""Tasks of an arriving job array that are taken into account."""


DrawnUs = Callable[[PendingRow, int], int]
"""A run time for a session that has not ended, by its row as submitted and the number of the sample; microseconds."""


class Arrivals(NamedTuple):
    """Sessions that arrive in one possible future."""

    arrivals: Sequence[Arrival]
    """By time."""
    cancels_us: Mapping[SessionId, int]
    """Arriving sessions that leave the queue at this time if they have not started."""


@dataclass(slots=True)
class _Source:
    """A past submission and what became of it."""

    row: PendingRow
    """As it was submitted."""
    task: int = 0
    """Index of a task of a job array; 0 for other sessions."""
    run_us: int | None = None
    """None = it has not ended."""
    cancelled_us: int | None = None

    @property
    def submitted(self) -> PendingRow:
        """The row; of a task of a job array, with the id of the task."""
        if self.row.tasks is None:
            return self.row
        return replace(self.row, session_id=task_id(self.row.session_id, index=self.task))


class ArrivalHistory:
    """Submissions of the last five weeks."""

    def __init__(self) -> None:
        self._sources: list[_Source] = []
        """By submission."""
        self._by_id: dict[SessionId, list[_Source]] = {}
        self._workloads: dict[Workload, None] = {}
        self._first_us: int | None = None

    def learn(self, row: PendingRow) -> None:
        """Add a session as it is submitted; submissions come in the order of their times."""
        self._first_us = row.queued_us if self._first_us is None else self._first_us
        tasks = [0] if row.tasks is None else islice(row.tasks, TASKS_MAX)
        sources = [_Source(row, task) for task in tasks]
        self._sources += sources
        self._by_id[row.session_id] = sources
        if row.workload is not None:
            self._workloads[row.workload] = None
        if self._sources[0].row.queued_us < row.queued_us - KEPT_US - DAY_US:
            self._forget(row.queued_us - KEPT_US)

    def ended(self, session_id: SessionId, *, run_ms: int) -> None:
        """Note how long a submitted session, or a task of a job array, ran."""
        for source in self._sources_of(session_id):
            source.run_us = max(run_ms, 1) * 1000

    def cancelled(self, session_id: SessionId, *, at_us: int, tasks: Intervals | None = None) -> None:
        """Note that a submitted session left the queue without a start.

        Args:
            tasks: of a job array, those that were canceled; the ones that have run do not count. None = all.
        """
        for source in self._sources_of(session_id):
            if tasks is None or source.task in tasks:
                source.cancelled_us = at_us

    def _sources_of(self, session_id: SessionId) -> Sequence[_Source]:
        """A submitted session; of a task, the task alone."""
        array_id, index = task_parts(session_id)
        sources = self._by_id.get(array_id, ())
        if index is None:
            return sources
        place = bisect_left(sources, index, key=lambda source: source.task)
        return [source for source in sources[place : place + 1] if source.task == index]

    def row(self, session_id: SessionId) -> PendingRow | None:
        """A submitted session as it was submitted; None = unknown."""
        sources = self._by_id.get(session_id)
        return sources[0].row if sources else None

    def workloads(self) -> Sequence[Workload]:
        """What sessions that may arrive are predicted by."""
        return tuple(self._workloads)

    def futures(self, now_us: int, *, horizon_us: int, drawn_us: DrawnUs, seed: int) -> "ArrivalFutures":
        """The arrivals from now on.

        Args:
            horizon_us: how far to look.
            seed: of the choice of weeks.
        """
        return ArrivalFutures(self._periods(now_us, horizon_us=horizon_us), drawn_us, seed=seed)

    def _periods(self, now_us: int, *, horizon_us: int) -> list[list["_Period"]]:
        """For each coming period, the past ones that it may be like."""
        known_us = 0 if self._first_us is None else now_us - self._first_us
        period_us = WEEK_US if known_us >= WEEK_US else DAY_US
        count = min(known_us // period_us, PERIODS_MAX)
        if not count:
            return []
        last_us = now_us + horizon_us
        return [
            [self._period(now_us - back * period_us, period_us, block + back, last_us) for back in range(1, count + 1)]
            for block in range(-(-horizon_us // period_us))
        ]

    def _period(self, from_us: int, period_us: int, periods_later: int, last_us: int) -> "_Period":
        shift_us = periods_later * period_us
        first = bisect_left(self._sources, from_us, key=_submitted_us)
        last = bisect_left(self._sources, min(from_us + period_us, last_us - shift_us), key=_submitted_us)
        return _Period(self._sources[first:last], shift_us)

    def _forget(self, before_us: int) -> None:
        count = bisect_left(self._sources, before_us, key=_submitted_us)
        for source in self._sources[:count]:
            self._by_id.pop(source.row.session_id, None)
        del self._sources[:count]
        self._workloads = dict.fromkeys(
            source.row.workload for source in self._sources if source.row.workload is not None
        )


class ArrivalFutures:
    """The arrivals of all samples of one forecast. Rows are made when they arrive, once for all samples."""

    def __init__(self, periods: Sequence[Sequence["_Period"]], drawn_us: DrawnUs, *, seed: int) -> None:
        self._periods = periods
        self._drawn_us = drawn_us
        self._seed = seed

    def of(self, sample: int) -> Arrivals:
        """What arrives in a sample."""
        chosen = [
            choices[split_mix_64(self._seed, sample * BLOCKS_MAX + block) % len(choices)]
            for block, choices in enumerate(self._periods)
        ]
        cancels_us = {name: at_us for period in chosen for name, at_us in period.cancels_us.items()}
        return Arrivals(_SampledArrivals(chosen, self._drawn_us, sample), cancels_us)


class _SampledArrivals(Sequence[Arrival]):
    """The arrivals of one sample."""

    def __init__(self, periods: Sequence["_Period"], drawn_us: DrawnUs, sample: int) -> None:
        self._periods = periods
        self._drawn_us = drawn_us
        self._sample = sample
        self._ends = list(accumulate(len(period) for period in periods))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> Arrival: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Arrival]: ...
    def __getitem__(self, index: int | slice) -> Arrival | Sequence[Arrival]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        number = bisect_right(self._ends, index)
        period = self._periods[number]
        position = index - (self._ends[number - 1] if number else 0)
        arrival, source = period[position], period.source(position)
        if source.run_us is not None:
            return arrival
        return replace(arrival, run_us=self._drawn_us(source.submitted, self._sample))


class _Period:
    """One past period as it may come."""

    def __init__(self, sources: Sequence[_Source], shift_us: int) -> None:
        self._sources = sources
        self._shift_us = shift_us
        self._made: list[Arrival | None] = [None] * len(sources)
        self.cancels_us = {
            self._name(source): source.cancelled_us + shift_us
            for source in sources
            if source.cancelled_us is not None and source.run_us is None
        }

    def __len__(self) -> int:
        return len(self._sources)

    def __getitem__(self, position: int) -> Arrival:
        """A session that has not ended runs for a moment here."""
        made = self._made[position]
        if made is None:
            source = self._sources[position]
            row = _plain(source.row, name=self._name(source), at_us=source.row.queued_us + self._shift_us)
            self._made[position] = made = Arrival(at_us=row.queued_us, row=row, run_us=source.run_us or 1)
        return made

    def source(self, position: int) -> _Source:
        """What it was."""
        return self._sources[position]

    def _name(self, source: _Source) -> SessionId:
        return SessionId(f"{source.row.session_id}+{self._shift_us // HOUR_US}h.{source.task}")


def _submitted_us(source: _Source) -> int:
    return source.row.queued_us


def _plain(row: PendingRow, *, name: SessionId, at_us: int) -> PendingRow:
    """The row as it may arrive: without conditions of its own; of a job array, one task."""
    return replace(
        row,
        session_id=name,
        state=SessionState.QUEUED,
        queued_us=at_us,
        not_before_us=None,
        depends_on=(),
        excluded_agents=(),
        falls_back_us=None,
        preempted_for=None,
        tasks=None,
        tasks_startable=1,
    )
