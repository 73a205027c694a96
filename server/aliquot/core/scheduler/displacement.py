"""Displacement: which running sessions a preemptive order (`las`, `srtf`) may displace for a waiting one.

A preemptible session is displaced only if that gains more than it loses: the run time that it is still expected to
need, less that of the session which displaces it, exceeds the work since its last checkpoint, its grace and its
restart. The largest gain is preferred.

A session that saves its work at intervals is displaced right after a checkpoint, while at most 1 / `FRESH_DIVISOR` of
an interval is unsaved. Later in the interval it is left alone until its next checkpoint, unless that is more than
`WAIT_MS_MAX` away: the waiting session loses minutes, and the running one loses next to no work.

A session displaces another only after it has waited as long as the grace and the restart take: devices that become free
meanwhile cost nothing. A wait and a displacement then cost together at most twice what the better choice costs.

Source: Karlin et al., Competitive randomized algorithms for nonuniform problems, Algorithmica 11, 1994 (ski rental).
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow, RunningRow
from aliquot.core.scheduler import ordering
from aliquot.core.scheduler.backlog import OVERRUN_DIVISOR
from aliquot.core.scheduler.expected_ends import ESTIMATE_MS_UNKNOWN
from aliquot.core.scheduler.ordering import DURATION_MAX_MS
from aliquot_schema.resources.slots import MILLI

FRESH_DIVISOR: Final = 10
WAIT_MS_MAX: Final = 600_000


class Displaceable(Struct, frozen=True, kw_only=True):
    """Sessions that a waiting one may displace."""

    now: Sequence[RunningRow] = ()
    """Those that may be displaced at once, the largest gain first."""
    again_us: int | None = None
    """When one of those left alone may be displaced: at the next checkpoint of the one with the largest gain, when the
    first `run_min` is over, or when the first gain has become large enough; None = never, as far as is known now."""


class Displacement:
    """Gains and losses of displacements at one time."""

    def __init__(self, policy: Policy, *, now_us: int) -> None:
        self._order = policy.order
        self._rules = policy.preemption
        self._now_us = now_us

    def of(self, row: PendingRow, running: Iterable[RunningRow], *, left_ms: int) -> Displaceable:
        """Sessions whose displacement by a row gains more than it loses.

        Args:
            left_ms: run time that the row is expected to need, see `ordering.left_ms`.
        """
        preemptible = [held for held in running if held.is_preemptible]
        allowed = [held for held in preemptible if self.is_allowed(held)]
        allowed_us = self.next_allowed_us(preemptible)
        if not allowed:
            return Displaceable(again_us=allowed_us)
        kept_ms = np.array([held.kept_ms for held in allowed], dtype=np.int64)
        ran_ms = np.array([self.ran_ms(held) for held in allowed], dtype=np.int64)
        estimates = [ESTIMATE_MS_UNKNOWN if held.estimate_ms is None else held.estimate_ms for held in allowed]
        expected_ms = np.minimum(np.array(estimates, dtype=np.int64), DURATION_MAX_MS)
        lost_ms = np.array([self.lost_ms(held, int(ran)) for held, ran in zip(allowed, ran_ms, strict=True)])
        gain_ms = ordering.left_ms(self._order, expected_ms=expected_ms, had_ms=kept_ms + ran_ms) - left_ms - lost_ms
        own = ordering.las_levels(np.array([row.kept_ms]), milli=np.array([row.milli]))
        if self._order == "las":
            milli = np.array([held.milli for held in allowed], dtype=np.int64)
            levels = ordering.las_levels(kept_ms + ran_ms, milli=milli)
            gain_ms = np.where(levels > own, gain_ms, 0)
        gains = gain_ms.tolist()
        places = [place for place, gain in enumerate(gains) if gain > 0]
        places.sort(key=lambda place: (-gains[place], allowed[place].session_id))
        waits_ms = {place: self._wait_ms(row, allowed[place], int(ran_ms[place])) for place in places}
        soon_ms = next((wait_ms for wait_ms in waits_ms.values() if wait_ms is not None), None)
        known_ms = [soon_ms] if soon_ms is not None else []
        for held, ran, gain in zip(allowed, ran_ms.tolist(), gains, strict=True):
            gain_in_ms = self._gain_in_ms(held, ran, left_ms=left_ms, level=int(own[0])) if gain <= 0 else None
            known_ms += [gain_in_ms] if gain_in_ms is not None else []
        known_us = [self._now_us + wait_ms * 1000 for wait_ms in known_ms]
        return Displaceable(
            now=[allowed[place] for place, wait_ms in waits_ms.items() if wait_ms is None],
            again_us=min(known_us if allowed_us is None else [*known_us, allowed_us], default=None),
        )

    def is_allowed(self, held: RunningRow) -> bool:
        """Whether the limits of the policy let a session be preempted now."""
        allowed_us = self._allowed_us(held)
        return allowed_us is not None and allowed_us <= self._now_us

    def next_allowed_us(self, running: Iterable[RunningRow]) -> int | None:
        """When the next of these sessions has run for `run_min`, so that it may be preempted; None = none will."""
        times = (self._allowed_us(held) for held in running)
        return min((at_us for at_us in times if at_us is not None and at_us > self._now_us), default=None)

    def _allowed_us(self, held: RunningRow) -> int | None:
        """From when on the limits of the policy let a session be preempted; None = they do not."""
        if held.is_leaving or held.started_us is None or held.preemptions >= self._rules.preemptions_max:
            return None
        return held.started_us + self._rules.run_ms_min * 1000

    def ran_ms(self, held: RunningRow) -> int:
        """Run time of the present attempt, without its restart."""
        elapsed_ms = 0 if held.started_us is None else (self._now_us - held.started_us) // 1000
        return max(elapsed_ms - self._rules.restart_ms, 0) if held.kept_ms else max(elapsed_ms, 0)

    def growth_gain_ms(self, held: RunningRow, kernels: int) -> int:
        """Run time that an elastic gang gains by a restart with more kernels, less its loss."""
        ran_ms = self.ran_ms(held)
        order = "las" if held.estimate_ms is None else "srtf"
        had_ms = np.array([held.kept_ms + ran_ms], dtype=np.int64)
        expected_ms = np.array([min(held.estimate_ms or 0, DURATION_MAX_MS)], dtype=np.int64)
        left_ms = int(ordering.left_ms(order, expected_ms=expected_ms, had_ms=had_ms)[0])
        return left_ms * (kernels - len(held.kernels)) // kernels - self.lost_ms(held, ran_ms)

    def lost_ms(self, held: RunningRow, ran_ms: int) -> int:
        """Run time that a preemption costs a session: work since its last checkpoint, grace and restart."""
        return _unsaved_ms(held, ran_ms) + self._least_lost_ms(held)

    def _least_lost_ms(self, held: RunningRow) -> int:
        """Run time that a preemption costs a session whatever its last checkpoint holds."""
        grace_ms = self._rules.grace_ms if held.grace_ms is None else held.grace_ms
        return grace_ms + self._rules.restart_ms

    def _wait_ms(self, row: PendingRow, held: RunningRow, ran_ms: int) -> int | None:
        """Time until a row may displace a session; None = it may now."""
        waited_ms = (self._now_us - row.queued_us) // 1000
        if waited_ms < self._least_lost_ms(held):
            return self._least_lost_ms(held) - waited_ms
        return self._next_save_ms(held, ran_ms)

    def _gain_in_ms(self, held: RunningRow, ran_ms: int, *, left_ms: int, level: int) -> int | None:
        """Time until the displacement of a session gains enough, as it runs on; None = never.

        Without further predictions it is expected to need longer the longer it runs; see `ordering.left_ms`. Under
        `las` it is enough that the gain exceeds the loss. Under `srtf` the gain must be twice as large: a displacement
        has no benefit where they are equal, and passes at these times lost three times as much work to preemption.

        Args:
            left_ms: of the row that may displace it.
            level: the row's queue under `las`.
        """
        if held.checkpoint_ms is None:
            return None
        least_ms = left_ms + self._least_lost_ms(held) + 1
        if self._order == "las":
            limit_ms = -(-int(ordering.LAS_LIMITS[level]) // max(held.milli, MILLI))
            wait_ms = max(least_ms, limit_ms) - held.kept_ms - ran_ms
        else:
            wait_ms = 2 * least_ms * OVERRUN_DIVISOR - held.kept_ms - ran_ms
        if wait_ms <= 0 and held.checkpoint_ms:
            wait_ms = held.checkpoint_ms - _unsaved_ms(held, ran_ms)
        return wait_ms if wait_ms > 0 else None

    def _next_save_ms(self, held: RunningRow, ran_ms: int) -> int | None:
        """Time to a session's next checkpoint if it is worth waiting for; None if not."""
        interval_ms, unsaved_ms = held.checkpoint_ms, _unsaved_ms(held, ran_ms)
        if not interval_ms or unsaved_ms <= interval_ms // FRESH_DIVISOR:
            return None
        # A checkpoint that is overdue may never come.
        return interval_ms - unsaved_ms if 0 < interval_ms - unsaved_ms <= WAIT_MS_MAX else None


def _unsaved_ms(held: RunningRow, ran_ms: int) -> int:
    """Work of a session that no checkpoint holds."""
    if held.saved_ms is not None and held.checkpoint_ms != 0:
        return max(ran_ms - held.saved_ms, 0)
    if held.checkpoint_ms is None:
        return ran_ms + held.kept_ms
    return ran_ms % held.checkpoint_ms if held.checkpoint_ms else 0
