"""Run time history: draws of how long a session runs, given how long it has run already.

A draw backs off from the most similar ended runs to less similar ones: same user and program and size, same user and
size and limit, same user and size, same user, same size class, all. A level with c runs longer than the time already
run is taken with probability c / (c + 15), else the next one. Two of five draws from the runs of a user are among their
last eight, because users change what they run; the others are among all, so that rare long runs occur. The last two
levels hold run time / limit where limits exist. Runs with and without a GPU never predict each other. Measured on
public logs; see the page on forecasts.
"""

from bisect import bisect_left, bisect_right, insort
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from aliquot.core.prediction import Predictor, RunTimes, Workload
from aliquot_schema.ids import UserId
from aliquot_schema.resources.slots import MILLI

RUNS_OF_KEY_MAX: Final = 512
"""Runs kept per user and kind."""
RECENT_RUNS: Final = 8
RECENT_TENTHS: Final = 4
"""How often one of the recent runs of a user is drawn, where all of them are longer than the time already run."""
RUNS_OF_CLASS_MAX: Final = 512
RUNS_OF_ALL_MAX: Final = 2048
KEYS_MAX: Final = 50_000
"""Keys kept; the key without a run for the longest time is dropped first."""
BACK_OFF_RUNS: Final = 15
"""A level with this many candidates is taken every other time."""
RANKS: Final = 1 << 64
"""Ranks and choices are integers in [0, RANKS)."""
UNKNOWN_MS: Final = 60_000
"""A session without any history runs for one to four times the longer of this and the time that it has run."""
PARTS: Final = 1_000_000
"""Run time / limit is counted in millionths."""
Key = tuple[str, UserId | None, str | int | None, int | None]


class EndedRun(Struct, frozen=True, kw_only=True):
    """A run that ended by itself, by its limit or by a cancellation while it ran."""

    workload: Workload
    duration_ms: int


class SimilarityLevel(NamedTuple):
    """Candidates of one level of similarity."""

    until: int
    """The level is taken by choices below this, unless an earlier one is."""
    values: Sequence[int]
    """Sorted: milliseconds, or millionths of the time limit. They change when a run is learned."""
    first: int
    """Values from this position on are longer than the time already run."""
    is_part: bool
    """Whether values are millionths of the time limit."""


class RunTimeCandidates(NamedTuple):
    """Ended runs that may tell how long one session runs."""

    levels: tuple[SimilarityLevel, ...]
    elapsed_ms: int
    limit_ms: int | None

    def at(self, rank: int, choice: int) -> int:
        """The whole run time in milliseconds, longer than the time already run.

        Args:
            rank: 0 = the shortest of the candidates, `RANKS` - 1 = the longest.
            choice: of the level; independent of the rank.
        """
        for level in self.levels:
            if choice < level.until:
                values = level.values
                value = values[level.first + (rank * (len(values) - level.first) >> 64)]
                assert self.limit_ms is not None or not level.is_part
                drawn_ms = value * (self.limit_ms or 0) // PARTS if level.is_part else value
                return self._within(drawn_ms)
        longest_ms = max(self.elapsed_ms, UNKNOWN_MS)
        return self._within(longest_ms + (3 * longest_ms * rank >> 64))

    def _within(self, drawn_ms: int) -> int:
        most_ms = drawn_ms if self.limit_ms is None else min(drawn_ms, self.limit_ms)
        return max(most_ms, self.elapsed_ms + 1)


class RunHistory:
    """Learns from every ended run, in the order of ends."""

    def __init__(self) -> None:
        self._runs: dict[Key, _Ring] = {}
        self._finished: Counter[UserId] = Counter()
        self._predictor = Predictor()
        self.total = 0
        """Ended runs learned."""

    def learn(self, run: EndedRun) -> None:
        """Add an ended run."""
        workload, duration_ms = run.workload, max(run.duration_ms, 1)
        for key, most, is_part in _levels(workload):
            ring = self._runs.pop(key, None)
            self._runs[key] = ring = _Ring(most) if ring is None else ring
            ring.add(duration_ms * PARTS // (workload.limit_ms or PARTS) if is_part else duration_ms)
        while len(self._runs) > KEYS_MAX:
            del self._runs[next(iter(self._runs))]
        self._predictor.learn(workload, duration_ms=duration_ms)
        self._finished[workload.user] += 1
        self.total += 1

    def finished(self, user: UserId) -> int:
        """Ended runs of a user."""
        return self._finished[user]

    def predicted(self, workload: Workload) -> RunTimes | None:
        """What the scheduler would expect of a session that is submitted now; None = nothing."""
        found = self._predictor.predict(workload)
        return None if found is None else found.run_times

    def candidates(self, workload: Workload, *, elapsed_ms: int = 0) -> RunTimeCandidates:
        """What the run time of a session is drawn from.

        Args:
            elapsed_ms: how long it has run already; 0 = it has not started.
        """
        left = RANKS
        found = []
        for key, _, is_part in _levels(workload):
            ring = self._runs.get(key)
            if ring is None:
                continue
            longer_than = elapsed_ms * PARTS // (workload.limit_ms or PARTS) if is_part else elapsed_ms
            first = bisect_right(ring.ordered, longer_than)
            count = len(ring.ordered) - first
            if not count:
                continue
            taken = left * count // (count + BACK_OFF_RUNS)
            if key[1] is not None:
                recent = ring.recent()
                after = bisect_right(recent, longer_than)
                of_recent = taken * RECENT_TENTHS * (len(recent) - after) // (10 * RECENT_RUNS)
                found.append(SimilarityLevel(RANKS - left + of_recent, recent, after, False))
            left -= taken
            found.append(SimilarityLevel(RANKS - left, ring.ordered, first, is_part))
        if found:
            found[-1] = found[-1]._replace(until=RANKS)
        return RunTimeCandidates(tuple(found), elapsed_ms, workload.limit_ms)


class _Ring:
    """The last values, by time and sorted."""

    __slots__ = ("_recent", "ordered")

    def __init__(self, most: int) -> None:
        self._recent: deque[int] = deque(maxlen=most)
        self.ordered: list[int] = []

    def add(self, value: int) -> None:
        if len(self._recent) == self._recent.maxlen:
            del self.ordered[bisect_left(self.ordered, self._recent[0])]
        self._recent.append(value)
        insort(self.ordered, value)

    def recent(self) -> list[int]:
        """The newest values, sorted."""
        return sorted(self._recent[-back] for back in range(1, min(RECENT_RUNS, len(self._recent)) + 1))


def size_class(milli: int) -> int:
    """-1 without accelerators, 0 for less than one, else 1 + the binary logarithm of their number, rounded down."""
    return -1 if not milli else (milli // MILLI).bit_length()


def _levels(workload: Workload) -> Iterator[tuple[Key, int, bool]]:
    """Keys, the most similar first, with the number of runs kept and whether these are parts of the limit."""
    user, milli, limit_ms = workload.user, workload.milli, workload.limit_ms
    if workload.program is not None:
        yield ("program", user, workload.program, milli), RUNS_OF_KEY_MAX, False
    if limit_ms is not None:
        yield ("limit", user, limit_ms, milli), RUNS_OF_KEY_MAX, False
    yield ("size", user, None, milli), RUNS_OF_KEY_MAX, False
    has_limit = limit_ms is not None
    kind = "part" if has_limit else "time"
    if milli:
        yield ("user", user, None, None), RUNS_OF_KEY_MAX, False
    yield (f"class, {kind}", None, None, size_class(milli)), RUNS_OF_CLASS_MAX, has_limit
    if milli:
        yield (f"all, {kind}", None, None, None), RUNS_OF_ALL_MAX, has_limit
