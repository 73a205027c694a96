"""Right size: what the next run of a command needs, from what its last runs used, and how often such advice was enough.

The runs of one user, program and number of GPUs are compared. Each figure is the maximum over the last `RUNS_MAX` runs
with a margin. Its hit rate is measured on later runs only: each run is tested against the advice made from the runs
before it, so that no run is judged by an advice that knew it.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from aliquot_schema.resources.slots import MILLI

RUNS_MIN: Final = 3
"""Runs that advice is made from, at least."""
RUNS_MAX: Final = 20
SHARE_STEP: Final = 50
"""Shares are rounded up to this, in milli of a GPU."""
SHARE_MAX: Final = 900
"""A larger share is not advised: hardly any session fits beside it."""
TIME_PCT: Final = 125
MEMORY_PCT: Final = 115
SHARE_PCT: Final = 120
"""What is advised, as a percentage of the largest past value."""
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
MEMORY_STEP: Final = 1 << 29
"""Memory is rounded up to half a GiB."""
SAVING_PCT: Final = 90
"""A figure above this percentage of the request is no advice: it would save too little."""


class RequestPart(StrEnum):
    """A part of a request."""

    GPUS = "gpus"
    """Whole GPUs of all kernels together, in milli."""
    SHARE = "share"
    """Of the only GPU, in milli."""
    GPU_MEMORY = "gpu_memory"
    """Of each GPU, in bytes."""
    MEMORY = "memory"
    """Host memory of each kernel, in bytes."""
    TIME_LIMIT = "time_limit"
    """Milliseconds."""


class PastRun(Struct, frozen=True, kw_only=True):
    """What an ended run used."""

    duration_ms: int
    is_cut: bool = False
    """Whether its time limit ended it: it would have run for longer."""
    milli: int = 0
    """Accelerators that it held, of all kernels together."""
    gpus_used: int | None = None
    """GPUs that did some work; None = not measured."""
    share_used: int | None = None
    """Of the busiest GPU, the larger of the mean time in use and the peak of memory, in milli; None = not measured."""
    memory_peak: int | None = None
    """Largest of its GPUs, in bytes; None = not measured."""
    memory_total: int | None = None
    """Of the smallest of its GPUs, in bytes."""
    host_memory_peak: int | None = None
    """Largest of its kernels, in bytes; None = not measured."""

    def needed(self, measure: RequestPart) -> int | None:
        """What it needed; None = unknown, or without meaning for this run."""
        if measure is RequestPart.TIME_LIMIT:
            return self.duration_ms
        if measure is RequestPart.GPU_MEMORY:
            return self.memory_peak
        if measure is RequestPart.MEMORY:
            return self.host_memory_peak
        if measure is RequestPart.GPUS:
            return None if self.gpus_used is None or self.milli <= MILLI else self.gpus_used * MILLI
        return self.share_used if self.milli == MILLI else None


class NextRequest(Struct, frozen=True, kw_only=True):
    """What the next run requests; None = nothing of the kind."""

    milli: int = 0
    memory: int | None = None
    """Of each GPU, in bytes."""
    host_memory: int | None = None
    """Of each kernel, in bytes."""
    limit_ms: int | None = None

    def of(self, measure: RequestPart) -> int | None:
        """The requested amount."""
        if measure is RequestPart.TIME_LIMIT:
            return self.limit_ms
        if measure is RequestPart.GPU_MEMORY:
            return self.memory
        if measure is RequestPart.MEMORY:
            return self.host_memory
        return self.milli or None


class SizeAdvice(Struct, frozen=True, kw_only=True):
    """Advice on one part of a request."""

    measure: RequestPart
    amount: int
    """In the unit of the measure."""
    largest: int
    """The largest past value; the advice has a margin above it."""
    runs: int
    """Runs that it is made from."""
    enough: int
    """Later runs for which the advice made from the runs before them was enough."""
    tested: int
    """Later runs that could be tested."""


def right_size(runs: Sequence[PastRun], wanted: NextRequest) -> tuple[SizeAdvice, ...]:
    """The advice for the next run; empty where there are too few runs, or nothing worth saying.

    Args:
        runs: of one user, program and number of GPUs, by their end.
    """
    found = []
    for measure in RequestPart:
        known = [(run, need) for run in runs if (need := run.needed(measure)) is not None]
        amount = advised(measure, [need for _, need in known])
        if amount is None or not _is_worth(measure, amount, wanted, known[-1][0]):
            continue
        if any(run.is_cut for run, _ in known[-RUNS_MAX:]) and measure is RequestPart.TIME_LIMIT:
            continue  # a run that was cut says only that it needed more
        enough, tested = hit_rate(measure, known)
        last = [need for _, need in known[-RUNS_MAX:]]
        found.append(
            SizeAdvice(measure=measure, amount=amount, largest=max(last), runs=len(last), enough=enough, tested=tested)
        )
    return tuple(found)


def advised(measure: RequestPart, needed: Sequence[int]) -> int | None:
    """The amount advised after runs that needed these amounts; None with fewer than `RUNS_MIN`."""
    last = needed[-RUNS_MAX:]
    return _ROUNDED[measure](max(last)) if len(last) >= RUNS_MIN else None


def hit_rate(measure: RequestPart, known: Sequence[tuple[PastRun, int]]) -> tuple[int, int]:
    """(runs for which the advice from the runs before them was enough, runs that were tested).

    A run that was cut by its time limit is a miss when the advice was no longer; otherwise it is not counted.
    """
    enough = tested = 0
    for place in range(RUNS_MIN, len(known)):
        run, need = known[place]
        amount = advised(measure, [before for _, before in known[:place]])
        assert amount is not None, "there are enough runs before it"
        if measure is RequestPart.TIME_LIMIT and run.is_cut and amount > need:
            continue
        tested += 1
        enough += amount >= need and not (measure is RequestPart.TIME_LIMIT and run.is_cut)
    return enough, tested


def _is_worth(measure: RequestPart, amount: int, wanted: NextRequest, newest: PastRun) -> bool:
    asked = wanted.of(measure)
    if measure is RequestPart.GPU_MEMORY and asked is None:
        asked = newest.memory_total
    if measure is RequestPart.GPUS:
        return asked is not None and MILLI <= amount < asked
    if measure is RequestPart.SHARE:
        return asked == MILLI and amount <= SHARE_MAX
    if asked is None:
        return measure is not RequestPart.MEMORY and bool(amount)
    return 0 < amount * 100 <= asked * SAVING_PCT


def _time(longest_ms: int) -> int:
    """Whole 5 minutes up to an hour, 15 minutes up to six, else hours."""
    most_ms = longest_ms * TIME_PCT // 100
    step_ms = 5 * MINUTE_MS if most_ms <= HOUR_MS else 15 * MINUTE_MS if most_ms <= 6 * HOUR_MS else HOUR_MS
    return _up(most_ms, step_ms)


def _up(amount: int, step: int) -> int:
    return max(-(-amount // step) * step, step)


_ROUNDED: Final[dict[RequestPart, Callable[[int], int]]] = {
    RequestPart.GPUS: lambda most: most,
    RequestPart.SHARE: lambda most: _up(most * SHARE_PCT // 100, SHARE_STEP),
    RequestPart.GPU_MEMORY: lambda most: _up(most * MEMORY_PCT // 100, MEMORY_STEP),
    RequestPart.MEMORY: lambda most: _up(most * MEMORY_PCT // 100, MEMORY_STEP),
    RequestPart.TIME_LIMIT: _time,
}


def share_used(parts: Iterable[tuple[float, float]]) -> int:
    """See `PastRun.share_used`.

    Args:
        parts: (mean time in use, peak of memory) of each GPU, 0 to 1.
    """
    return max((round(1000 * max(pair)) for pair in parts), default=0)
