"""The built-in predictor: the median of the last runs that were most alike. Causal: it knows what has ended, no more.

Measured on public logs: the median of at most 20 runs beats the mean, and gradient boosting is no better.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from aliquot_schema.ids import UserId
from aliquot_schema.slots import MILLI

RUNS_MAX: Final = 20
"""Runs remembered of each likeness."""
KEYS_MAX: Final = 100_000
"""Likenesses remembered; the one that saw no run for the longest time goes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is known of a session before it runs."""

    user: UserId
    program: str | None
    """What tells its command from the user's others; None = unknown."""
    milli: int
    """Of accelerators, by all kernels together."""
    limit_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """How long a session is expected to run, and why."""

    estimate_ms: int
    runs: int
    likeness: str
    """What these runs have in common with the session, in words."""
    is_limited: bool
    """Whether the session's own limit is below what the runs took."""

    def sentence(self) -> str:
        """`median of your last 14 runs of train.py on 4 GPUs: 2 h 10 min`."""
        of = f"your last {self.runs} runs" if self.runs > 1 else "your last run"
        if not self.likeness.startswith("your"):
            of = f"the last {self.runs} runs" if self.runs > 1 else "the last run"
        alike = self.likeness.removeprefix("your").strip()
        time = duration_text(self.estimate_ms)
        how = f"median of {of}" if self.runs > 1 else of
        return f"{how}{' ' + alike if alike else ''}: {time}{', the time limit' if self.is_limited else ''}"


Key = tuple[str, UserId | None, str | None, int | None, int | None]


class Predictor:
    """Learns from every run that ended, in the order of their ends."""

    def __init__(self) -> None:
        self._runs: dict[Key, deque[int]] = {}

    def learn(self, workload: Workload, *, duration_ms: int) -> None:
        """Take in a run."""
        for key, _ in _likenesses(workload):
            runs = self._runs.pop(key, None)
            self._runs[key] = runs = deque(maxlen=RUNS_MAX) if runs is None else runs
            runs.append(duration_ms)
        while len(self._runs) > KEYS_MAX:
            del self._runs[next(iter(self._runs))]

    def predict(self, workload: Workload) -> Prediction | None:
        """By the runs that are most alike; None before anything has run."""
        for key, likeness in _likenesses(workload):
            runs = self._runs.get(key)
            if runs:
                median_ms = _median(runs)
                limit_ms = median_ms if workload.limit_ms is None else workload.limit_ms
                return Prediction(
                    estimate_ms=min(median_ms, limit_ms),
                    runs=len(runs),
                    likeness=likeness,
                    is_limited=limit_ms < median_ms,
                )
        return None


def duration_text(duration_ms: int) -> str:
    """The two largest units: `3 d 4 h`, `2 h 10 min`, `5 min`, `12 s`."""
    seconds = duration_ms // 1000
    units = (("d", seconds // 86_400), ("h", seconds // 3600 % 24), ("min", seconds // 60 % 60), ("s", seconds % 60))
    first = next((index for index, (_, amount) in enumerate(units) if amount), 3)
    shown = [f"{amount} {unit}" for unit, amount in units[first : first + 2] if amount]
    return " ".join(shown) if shown else "less than a second"


def _likenesses(workload: Workload) -> Iterator[tuple[Key, str]]:
    """From the most to the least alike, with what they have in common in words."""
    user, program, milli, limit_ms = workload.user, workload.program, workload.milli, workload.limit_ms
    size = f"on {_gpus(milli)}"
    if program is not None:
        yield ("program", user, program, milli, None), f"your of {program} {size}"
    if limit_ms is not None:
        yield ("limit", user, None, milli, limit_ms), f"your {size} with a limit of {duration_text(limit_ms)}"
    yield ("size", user, None, milli, None), f"your {size}"
    yield ("user", user, None, None, None), "your"
    yield ("all of size", None, None, milli, None), f"of everybody {size}"
    yield ("all", None, None, None, None), "of everybody"


def _gpus(milli: int) -> str:
    if not milli:
        return "no GPU"
    whole, rest = divmod(milli, MILLI)
    count = str(whole) if not rest else f"{milli / MILLI:g}"
    return f"{count} GPU" if count == "1" else f"{count} GPUs"


def _median(runs: deque[int]) -> int:
    ordered = sorted(runs)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) // 2
