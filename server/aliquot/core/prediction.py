"""Run time prediction: mean and median of the last runs of the most similar kind of session.

Only ended runs are used, compared by user, program, number of GPUs and time limit; runs without a GPU and runs with one
never predict each other. The queue is ordered by the mean, which long runs move: a user whose runs last ten minutes or
ten hours is not a short one. Reservations of sessions without a time limit use the median. Measured on public logs, the
mean orders as well as the median or better, and gradient boosting is no better than either.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from aliquot_schema.ids import UserId
from aliquot_schema.resources.slots import MILLI

RUNS_MAX: Final = 20
"""Runs kept per key."""
RUNS_MIN: Final = 3
"""Runs that a prediction is made from, at least."""
ESTIMATE_MS_MIN: Final = 60_000
"""No prediction is shorter: below a minute, starting and stopping a session takes as long as its run."""
OVERLONG_PCT: Final = 1000
OVERLONG_MS: Final = 3_600_000
OVERLONG_RUNS: Final = 5
"""Runs that a mean is made from, at least, for a run to count as far beyond it. With these values 0.7 % of the
predicted jobs of KTH-SP2 and 1.4 % of those of Philly count, whether something was wrong with them or not."""
KEYS_MAX: Final = 100_000
"""Keys kept; the key without a run for the longest time is dropped first."""
Key = tuple[str, UserId | None, str | None, int | None, int | None]


class Workload(Struct, frozen=True, kw_only=True):
    """Properties of a session that are known before it runs."""

    user: UserId
    program: str | None
    """Program name, see `workloads.program_of`; None = unknown."""
    milli: int
    """Accelerators of all kernels together."""
    limit_ms: int | None


class RunTimes(NamedTuple):
    """Expected run times of one workload, in milliseconds."""

    mean_ms: int
    """Orders the queue."""
    median_ms: int
    """Reserves devices, for a session without a time limit."""


class Prediction(Struct, frozen=True, kw_only=True):
    """Expected run time of a session with its basis."""

    estimate_ms: int
    """Mean of the runs, at least `ESTIMATE_MS_MIN`, at most the session's time limit."""
    median_ms: int
    """Median of the runs, within the same bounds."""
    runs: int
    user: UserId | None
    """Whose runs these are; None = of all users."""
    likeness: str
    """What else these runs have in common with the session, as text."""
    is_limited: bool
    """Whether the session's time limit is below the mean."""

    @property
    def run_times(self) -> RunTimes:
        """The numbers that decisions use."""
        return RunTimes(self.estimate_ms, self.median_ms)

    def is_exceeded(self, ran_ms: int, *, pct: int = OVERLONG_PCT, runs_min: int = OVERLONG_RUNS) -> bool:
        """Whether a run is far beyond the mean: above `pct` percent of it, and `OVERLONG_MS` longer than that."""
        return self.runs >= runs_min and ran_ms > self.estimate_ms * pct // 100 + OVERLONG_MS

    def sentence(self) -> str:
        """Text like `mean of ann's last 14 runs of train.py on 4 GPUs: 2 h 10 min`."""
        runs = (
            f"the last {self.runs} runs of all users" if self.user is None else f"{self.user}'s last {self.runs} runs"
        )
        limited = ", the time limit" if self.is_limited else ""
        return f"mean of {runs} {self.likeness}: {duration_text(self.estimate_ms)}{limited}"


class Predictor:
    """Learns from every ended run, in the order of ends."""

    def __init__(self) -> None:
        self._runs: dict[Key, deque[int]] = {}

    def learn(self, workload: Workload, *, duration_ms: int) -> tuple[Key, ...]:
        """Add an ended run; returns what it is known by, the most similar first."""
        keys = tuple(key for key, _ in _likenesses(workload))
        for key in keys:
            runs = self._runs.pop(key, None)
            self._runs[key] = runs = deque(maxlen=RUNS_MAX) if runs is None else runs
            runs.append(duration_ms)
        while len(self._runs) > KEYS_MAX:
            del self._runs[next(iter(self._runs))]
        return keys

    def predict(self, workload: Workload) -> Prediction | None:
        """Prediction from the most similar runs; None with fewer than `RUNS_MIN` of every kind."""
        return self.look_up(workload)[0]

    def look_up(self, workload: Workload) -> tuple[Prediction | None, tuple[Key, ...]]:
        """The prediction, and the keys whose next run may change it."""
        tried: list[Key] = []
        for key, likeness in _likenesses(workload):
            tried.append(key)
            runs = self._runs.get(key)
            if runs is not None and len(runs) >= RUNS_MIN:
                return _prediction(runs, key[1], likeness, limit_ms=workload.limit_ms), tuple(tried)
        return None, tuple(tried)


class WaitingWorkloads:
    """Workloads of waiting sessions, predicted again whenever a run that may change their prediction has ended."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self._sessions: Counter[Workload] = Counter()
        self._found: dict[Workload, Prediction | None] = {}
        self._keys: dict[Workload, tuple[Key, ...]] = {}
        self._by_key: dict[Key, dict[Workload, None]] = {}
        self._outdated: dict[Workload, None] = {}
        self._run_times: Mapping[Workload, RunTimes] | None = None
        self._changed: dict[Workload, None] = {}
        """Waiting workloads that were predicted anew since `changes` was last called."""

    def join(self, workload: Workload) -> None:
        """Count a session that begins to wait."""
        self._sessions[workload] += 1
        if self._sessions[workload] == 1:
            self._look_up(workload)

    def leave(self, workload: Workload) -> None:
        """Count a session that waits no longer."""
        self._sessions[workload] -= 1
        if not self._sessions[workload]:
            del self._sessions[workload]
            self._outdated.pop(workload, None)
            self._forget(workload)

    def learn(self, workload: Workload, *, duration_ms: int) -> None:
        """Teach the predictor an ended run, and note whose prediction it may change."""
        for key in self._predictor.learn(workload, duration_ms=duration_ms):
            self._outdated.update(self._by_key.get(key, {}))

    def prediction(self, workload: Workload) -> Prediction | None:
        """The present prediction for a waiting workload."""
        if workload in self._outdated:
            self._look_up(workload)
        return self._found[workload]

    def run_times(self) -> Mapping[Workload, RunTimes]:
        """Of all waiting workloads with a prediction; the same object until one of them changes."""
        for workload in tuple(self._outdated):
            self._look_up(workload)
        if self._run_times is None:
            self._run_times = {key: found.run_times for key, found in self._found.items() if found is not None}
        return self._run_times

    def changes(self) -> Mapping[Workload, RunTimes | None]:
        """The predictions of waiting workloads that were made or changed since the last call; None = not known."""
        for workload in tuple(self._outdated):
            self._look_up(workload)
        found = {workload: self._found[workload] for workload in self._changed}
        self._changed.clear()
        return {workload: None if one is None else one.run_times for workload, one in found.items()}

    def _look_up(self, workload: Workload) -> None:
        self._outdated.pop(workload, None)
        found, keys = self._predictor.look_up(workload)
        if keys != self._keys.get(workload):
            self._forget(workload)
            self._keys[workload] = keys
            for key in keys:
                self._by_key.setdefault(key, {})[workload] = None
        if workload not in self._found or found != self._found[workload]:
            self._found[workload] = found
            self._changed[workload] = None
            self._run_times = None

    def _forget(self, workload: Workload) -> None:
        for key in self._keys.pop(workload, ()):
            del self._by_key[key][workload]
            if not self._by_key[key]:
                del self._by_key[key]
        self._changed.pop(workload, None)
        if self._found.pop(workload, None) is not None:
            self._run_times = None


def duration_text(duration_ms: int) -> str:
    """The two largest units: `3 d 4 h`, `2 h 10 min`, `5 min`, `12 s`."""
    seconds = duration_ms // 1000
    units = (("d", seconds // 86_400), ("h", seconds // 3600 % 24), ("min", seconds // 60 % 60), ("s", seconds % 60))
    first = next((index for index, (_, amount) in enumerate(units) if amount), 3)
    shown = [f"{amount} {unit}" for unit, amount in units[first : first + 2] if amount]
    return " ".join(shown) if shown else "less than a second"


def _prediction(runs: deque[int], user: UserId | None, likeness: str, *, limit_ms: int | None) -> Prediction:
    mean_ms, median_ms = max(sum(runs) // len(runs), ESTIMATE_MS_MIN), max(_median(runs), ESTIMATE_MS_MIN)
    most_ms = max(mean_ms, median_ms) if limit_ms is None else limit_ms
    return Prediction(
        estimate_ms=min(mean_ms, most_ms),
        median_ms=min(median_ms, most_ms),
        runs=len(runs),
        user=user,
        likeness=likeness,
        is_limited=most_ms < mean_ms,
    )


def _likenesses(workload: Workload) -> Iterator[tuple[Key, str]]:
    """Keys of similar runs with their description, the most similar first. None mixes runs with and without GPUs."""
    user, program, milli, limit_ms = workload.user, workload.program, workload.milli, workload.limit_ms
    size = f"on {_gpus(milli)}"
    if program is not None:
        yield ("program", user, program, milli, None), f"of {program} {size}"
    if limit_ms is not None:
        yield ("limit", user, None, milli, limit_ms), f"{size} with a limit of {duration_text(limit_ms)}"
    yield ("size", user, None, milli, None), size
    if not milli:
        yield ("all of size", None, None, 0, None), size
        return
    yield ("user", user, None, None, None), "on GPUs"
    yield ("all of size", None, None, milli, None), size
    yield ("all", None, None, None, None), "on GPUs"


def _gpus(milli: int) -> str:
    if not milli:
        return "no GPU"
    whole, rest = divmod(milli, MILLI)
    count = str(whole) if not rest else f"{milli / MILLI:g}"
    return f"{count} GPU" if milli <= MILLI else f"{count} GPUs"


def _median(runs: deque[int]) -> int:
    ordered = sorted(runs)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) // 2
