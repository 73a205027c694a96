"""Running sessions of a simulated future: when they are expected to end, and how much predicted work they have left.

Both follow `expected_ends` and `backlog` of the scheduler, one session at a time and only as far as a pass needs them.
A reservation reads the next few expected ends, and the work left is first compared as an upper bound.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Final

from aliquot.core.foresight.node_capacity import Part
from aliquot.core.model.plan import BacklogPeak
from aliquot.core.scheduler.backlog import BACKLOG_MS_MAX, OVERRUN_DIVISOR, PARTS_OF_POOL, peak_ms
from aliquot.core.scheduler.expected_ends import ESTIMATE_MS_UNKNOWN, OVERRUN_US_MIN
from aliquot_schema.ids import QuotaId, SessionId, SlotName

HORIZON_US: Final = 3_600_000_000
"""How long bounds of the work left are valid."""
NEVER_US: Final = 2**63
"""Later than every end."""


class RunningSession:
    """A running session."""

    __slots__ = (
        "account",
        "array_id",
        "bound_ms",
        "ends_us",
        "estimate_ms",
        "group",
        "is_leaving",
        "is_predicted",
        "milli",
        "name",
        "need",
        "part",
        "parts",
        "queue_id",
        "quotas",
        "rate_milli",
        "started_us",
    )

    def __init__(
        self,
        name: SessionId,
        *,
        ends_us: int,
        parts: tuple[Part, ...],
        milli: int,
        rate_milli: int,
        account: int,
        group: tuple[int, bool],
        part: int,
        started_us: int | None,
        estimate_ms: int | None,
        need: Mapping[SlotName, int],
        quotas: tuple[QuotaId, ...],
        is_leaving: bool = False,
        array_id: SessionId | None = None,
        queue_id: SessionId | None = None,
    ) -> None:
        """
        Args:
            ends_us: planned end.
            group: number of its pool, and whether it has accelerators.
            part: of its pool, in millionths.
            array_id: the job array that it is a task of; None = it is no task.
            queue_id: the id that it had in the queue: that of the job array, for a task that waited in its row; None =
                its own, as of a task that was queued again.
        """
        self.name: Final = name
        self.ends_us: Final = ends_us
        self.parts: Final = parts
        self.milli: Final = milli
        self.rate_milli: Final = rate_milli
        self.account: Final = account
        self.group: Final = group
        self.part: Final = part
        self.started_us: Final = started_us
        self.estimate_ms: Final = min(ESTIMATE_MS_UNKNOWN if estimate_ms is None else estimate_ms, BACKLOG_MS_MAX)
        self.is_predicted: Final = estimate_ms is not None
        self.need: Final = need
        self.quotas: Final = quotas
        self.is_leaving: Final = is_leaving
        self.array_id: Final = array_id
        self.queue_id: Final = name if queue_id is None else queue_id

    def work_ms(self, now_us: int) -> int:
        """Predicted run time not yet done, in milliseconds of the whole pool; see `backlog.RunningWork`."""
        elapsed_ms = 0 if self.started_us is None else max(now_us - self.started_us, 0) // 1000
        if elapsed_ms < self.estimate_ms:
            left_ms = self.estimate_ms - elapsed_ms
        else:
            left_ms = min(elapsed_ms // OVERRUN_DIVISOR, BACKLOG_MS_MAX) if self.is_predicted else 0
        return left_ms * self.part // PARTS_OF_POOL

    def work_ms_most(self, now_us: int, until_us: int) -> int:
        """The most that `work_ms` is from now until then."""
        if self.started_us is None:
            return self.estimate_ms * self.part // PARTS_OF_POOL
        left_ms = self.estimate_ms - max(now_us - self.started_us, 0) // 1000
        overrun_ms = (until_us - self.started_us) // 1000 // OVERRUN_DIVISOR if self.is_predicted else 0
        return max(left_ms, overrun_ms, 0) * self.part // PARTS_OF_POOL


End = tuple[int, SessionId, RunningSession]


class RunningSet:
    """All running sessions."""

    def __init__(self) -> None:
        self._by_name: dict[SessionId, RunningSession] = {}
        self._ends: list[End] = []
        """Sorted by planned end."""
        self._most_ms: dict[tuple[int, bool], int] = {}
        """Bound of the work left by group, valid until `_until_us`."""
        self._bounds: dict[SessionId, int] = {}
        self._until_us = -1
        self._leaving = 0
        """Sessions that were asked to end."""

    def copy(self) -> "RunningSet":
        """An independent copy."""
        other = RunningSet()
        other._by_name, other._ends = self._by_name.copy(), self._ends.copy()
        other._most_ms, other._bounds = self._most_ms.copy(), self._bounds.copy()
        other._until_us, other._leaving = self._until_us, self._leaving
        return other

    def __len__(self) -> int:
        return len(self._by_name)

    def add(self, session: RunningSession, *, now_us: int) -> None:
        """Count a session as running from now on."""
        self._by_name[session.name] = session
        insort(self._ends, (session.ends_us, session.name, session))
        self._bound(session, now_us)
        self._leaving += session.is_leaving

    def remove(self, name: SessionId) -> RunningSession:
        """Count a session as ended."""
        session = self._by_name.pop(name)
        del self._ends[bisect_left(self._ends, (session.ends_us, name, session))]
        self._most_ms[session.group] -= self._bounds.pop(name)
        self._leaving -= session.is_leaving
        return session

    def expected(self, now_us: int) -> tuple[Sequence[End], int]:
        """Planned ends, and how many of them are overdue; see `expected_ends.ExpectedEnds`.

        Those that are overdue come first, and are expected to end in the reverse order, see `overdue_end_us`.
        """
        ends = self._ends
        if not ends or ends[0][0] > now_us:
            return ends, 0
        late = bisect_left(ends, (now_us + 1,))
        if not self._leaving:
            return ends, late
        overdue = [(overdue_end_us(end[2], now_us), *end[1:]) for end in reversed(ends[:late])]
        return sorted(overdue + ends[late:], key=itemgetter(0)), 0

    def in_order_of_ends(self, now_us: int) -> Iterator[End]:
        """Expected ends, ids and sessions, the earliest first."""
        ends, late = self.expected(now_us)
        early = late - 1
        for end in islice(ends, late, None):
            while early >= 0 and (at_us := overdue_end_us(ends[early][2], now_us)) <= end[0]:
                yield at_us, *ends[early][1:]
                early -= 1
            yield end
        for _, name, session in reversed(ends[: early + 1]):
            yield overdue_end_us(session, now_us), name, session

    def work_ms(self, group: tuple[int, bool], now_us: int) -> int:
        """Predicted work left of a group."""
        return sum([session.work_ms(now_us) for session in self._by_name.values() if session.group == group])

    def work_ms_most(self, group: tuple[int, bool], now_us: int) -> int:
        """An upper bound of `work_ms`."""
        if now_us > self._until_us:
            self._until_us = now_us + HORIZON_US
            self._most_ms.clear()
            for session in self._by_name.values():
                self._bound(session, now_us)
        return self._most_ms.get(group, 0)

    def _bound(self, session: RunningSession, now_us: int) -> None:
        most_ms = self._bounds[session.name] = session.work_ms_most(now_us, self._until_us)
        self._most_ms[session.group] = self._most_ms.get(session.group, 0) + most_ms


def overdue_end_us(session: RunningSession, now_us: int) -> int:
    """When a session is expected to end whose planned end has passed."""
    overrun_us = now_us - session.ends_us
    return now_us + (overrun_us if overrun_us > OVERRUN_US_MIN and not session.is_leaving else OVERRUN_US_MIN)


class Peaks:
    """The highest backlog of each pool so far, see `backlog`."""

    def __init__(self, peaks: Mapping[int, BacklogPeak]) -> None:
        """
        Args:
            peaks: by number of the pool.
        """
        self._peaks: Final = dict(peaks)

    def copy(self) -> "Peaks":
        """An independent copy."""
        return Peaks(self._peaks)

    def backlog_ms(
        self, pool: int, *, waiting_ms: Mapping[tuple[int, bool], int], running: RunningSet, now_us: int
    ) -> int:
        """The backlog, or its peak if that is higher; a new peak is kept.

        Args:
            waiting_ms: predicted work of waiting sessions by group.
        """
        known_ms = peak_ms(self._peaks.get(pool), now_us)
        above = [
            group
            for group in ((pool, True), (pool, False))
            if waiting_ms.get(group, 0) + running.work_ms_most(group, now_us) > known_ms
        ]
        if not above:
            return known_ms
        found_ms = max(waiting_ms.get(group, 0) + running.work_ms(group, now_us) for group in above)
        backlog_ms = min(found_ms, BACKLOG_MS_MAX)
        if backlog_ms > known_ms:
            self._peaks[pool] = BacklogPeak(backlog_ms, now_us)
        return max(backlog_ms, known_ms)
