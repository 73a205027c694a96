"""Bands: quantiles of simulated waits, and their correction by known outcomes.

The correction is additive in ln(wait + 60 s): the shown band is [P10 - a, P50, P90 + b], one pair (a, b) per pool. Each
outcome moves it: b += step x (1[wait > shown P90] - 0.1), a += step x (1[wait < shown P10] - 0.1). A session that still
waits at its P90 is a miss from then on.

P50 is moved by a part m of the way to P90, or to P10: m += step / 2 x (1[wait > shown P50] - 0.5), at most half of the
way. Measured on public logs; see the page on forecasts.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from math import exp, log
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from aliquot_schema.ids import PoolId

SECOND_US: Final = 1_000_000
OFFSET_US: Final = 60 * SECOND_US
"""Waits are compared as ln(wait + this)."""
WEEK_US: Final = 7 * 86_400 * SECOND_US
BAND_MAX_US: Final = WEEK_US
"""No band reaches further."""
TOLERANCE_US: Final = SECOND_US
"""An outcome this close to a band is inside."""
NATS: Final = 1_000_000
"""Offsets are millionths of a natural logarithm."""
OFFSET_MIN: Final = -1_000_000
OFFSET_MAX: Final = 1_600_000
MIDDLE_MAX: Final = 500_000
STEP_MIN: Final = 20_000
STEP_MAX: Final = 100_000
STEPS_PER_WEEK: Final = 10 * NATS
"""What all outcomes of a week may move an offset by: many outcomes in a row share one error."""
TIMES_MAX: Final = 2 * STEPS_PER_WEEK // STEP_MIN
"""Times of outcomes that are kept; twice as many as make the step the smallest."""
TARGET_TENTHS: Final = 1
"""Part of the outcomes above P90, and below P10, in tenths."""


class Band(NamedTuple):
    """P10, P50 and P90 of a time or a duration, in microseconds."""

    p10: int
    p50: int
    p90: int

    def later(self, by_us: int) -> "Band":
        """The band moved: a wait since `by_us` as a time."""
        return Band(self.p10 + by_us, self.p50 + by_us, self.p90 + by_us)

    def contains(self, value: int) -> bool:
        """Whether an outcome is inside, to the second."""
        return self.p10 - TOLERANCE_US <= value <= self.p90 + TOLERANCE_US


def band_of(values: Sequence[int]) -> Band:
    """P10, P50 and P90 of at least one value, by Hazen's rule."""
    ordered = sorted(values)
    return Band(*(hazen(ordered, tenths) for tenths in (1, 5, 9)))


def hazen(ordered: Sequence[int], tenths: int) -> int:
    """A quantile of sorted values: the k-th of n is the quantile (k - 1/2) / n, linear in between.

    Source: Hyndman and Fan, Sample quantiles in statistical packages, definition 5.
    """
    twentieths = 2 * tenths * len(ordered) - 10
    place, rest = divmod(min(max(twentieths, 0), 20 * (len(ordered) - 1)), 20)
    below = ordered[place]
    return below if not rest else below + (ordered[place + 1] - below) * rest // 20


class PoolCorrection(Struct, frozen=True, kw_only=True):
    """The correction of one pool, in millionths of a natural logarithm."""

    lower: int = 0
    upper: int = 300_000
    middle: int = 100_000
    """Millionths of the way from P50 to P90, or below 0 to P10."""


class BandCorrection:
    """The offsets of all pools, moved by every outcome. A change of the policy keeps them: the simulation uses the new
    policy at once, and what it gets wrong stays much the same."""

    def __init__(self, offsets: Mapping[PoolId, PoolCorrection] | None = None) -> None:
        self._offsets = dict(offsets or {})
        self._resolved_us: dict[PoolId, list[int]] = {}
        """Sorted, the newest `TIMES_MAX`: times of a clock that was far ahead for a moment change nothing else."""

    @property
    def offsets(self) -> Mapping[PoolId, PoolCorrection]:
        """The present correction, to be kept over a restart."""
        return dict(self._offsets)

    def corrected(self, raw: Band, *, pool: PoolId) -> Band:
        """The band of waits to show."""
        own = self._offsets.get(pool, PoolCorrection())
        p50 = _between(raw.p50, raw.p90 if own.middle > 0 else raw.p10, abs(own.middle))
        p10 = min(max(_moved(raw.p10, -own.lower), 0), p50)
        p90 = max(_moved(raw.p90, own.upper), p50)
        return Band(*(min(value, BAND_MAX_US) for value in (p10, p50, p90)))

    def overdue(self, *, pool: PoolId, at_us: int) -> None:
        """A session still waits past the P90 that was shown: a miss, counted before it starts."""
        own, step = self._next(pool, at_us)
        upper = own.upper + step * (10 - TARGET_TENTHS) // 10
        self._offsets[pool] = replace(own, upper=_clipped(upper))

    def resolved(self, wait_us: int, shown: Band, *, pool: PoolId, at_us: int, was_overdue: bool) -> None:
        """A forecast that said to wait came true, or not.

        Args:
            wait_us: since the forecast.
            was_overdue: `overdue` was called for it.
        """
        own, step = self._next(pool, at_us)
        below, above = wait_us < shown.p10 - TOLERANCE_US, wait_us > shown.p90 + TOLERANCE_US
        upper = own.upper if was_overdue else own.upper + step * (10 * above - TARGET_TENTHS) // 10
        lower = own.lower + step * (10 * below - TARGET_TENTHS) // 10
        middle = own.middle + (step // 4 if wait_us > shown.p50 else -step // 4)
        self._offsets[pool] = PoolCorrection(
            lower=_clipped(lower), upper=_clipped(upper), middle=min(max(middle, -MIDDLE_MAX), MIDDLE_MAX)
        )

    def _next(self, pool: PoolId, at_us: int) -> tuple[PoolCorrection, int]:
        """The offsets, and how far this outcome moves them."""
        recent = self._resolved_us.setdefault(pool, [])
        insort(recent, at_us)
        del recent[:-TIMES_MAX]
        count = max(bisect_right(recent, at_us) - bisect_left(recent, at_us - WEEK_US), 1)
        return self._offsets.get(pool, PoolCorrection()), min(max(STEPS_PER_WEEK // count, STEP_MIN), STEP_MAX)


class HourTable:
    """Calibration of the probability to start within an hour: ten bins of resolved forecasts."""

    def __init__(self, counts: Iterable[tuple[int, int]] | None = None) -> None:
        self._counts = [list(one) for one in counts] if counts is not None else [[0, 0] for _ in range(10)]

    @property
    def counts(self) -> tuple[tuple[int, int], ...]:
        """(forecasts, of them started within the hour) per bin, to be kept over a restart."""
        return tuple((one[0], one[1]) for one in self._counts)

    def learn(self, probability: float, *, started: bool) -> None:
        """Add a resolved forecast by its uncorrected probability."""
        one = self._counts[_bin(probability)]
        one[0] += 1
        one[1] += started

    def calibrated(self, probability: float) -> float:
        """How often it came true when it was forecast like this; the forecast itself counts as 20 outcomes."""
        count, started = self._counts[_bin(probability)]
        return (started + HOUR_PRIOR * probability) / (count + HOUR_PRIOR)


HOUR_PRIOR: Final = 20


class Corrections(Struct, frozen=True):
    """What past forecasts taught."""

    starts: BandCorrection
    ends: BandCorrection
    within_hour: HourTable

    @classmethod
    def new(cls) -> "Corrections":
        """Before the first outcome."""
        return cls(BandCorrection(), BandCorrection(), HourTable())


def _bin(probability: float) -> int:
    return min(int(probability * 10), 9)


def _moved(wait_us: int, by: int) -> int:
    return round((wait_us + OFFSET_US) * exp(by / NATS)) - OFFSET_US


def _between(from_us: int, to_us: int, part: int) -> int:
    """A wait between two, in millionths of the way in ln(wait + 60 s)."""
    return _moved(from_us, round(part * log((to_us + OFFSET_US) / (from_us + OFFSET_US))))


def _clipped(offset: int) -> int:
    return min(max(offset, OFFSET_MIN), OFFSET_MAX)
