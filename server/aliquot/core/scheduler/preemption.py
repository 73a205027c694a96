"""Preemption: chooses victims for a session that may preempt, and holds their devices for it.

A claim covers a whole session or nothing, and its set of victims is inclusion-minimal: without any one of them the
session would not fit. Victims with the most expected work left are preferred.

Under a preemptive order (`las`, `srtf`) preemptible sessions are displaced, see `displacement`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import compress
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.model.plan import Eviction, KernelPlacement, devices_held
from aliquot.core.model.snapshot import PendingRow, RunningRow
from aliquot.core.quota import QuotaTracker
from aliquot.core.scheduler.backfill import PassContext, used_without
from aliquot.core.scheduler.booking_calendar import BookingCalendar
from aliquot.core.scheduler.displacement import Displacement
from aliquot.core.scheduler.expected_ends import ESTIMATE_MS_UNKNOWN, expected_end_us
from aliquot.core.scheduler.free_capacity import FreeCapacity
from aliquot.core.scheduler.ordering import PREEMPTIVE
from aliquot_schema.ids import SessionId, UserId
from aliquot_schema.policies import PreemptScope
from aliquot_schema.sessions import PreemptionCause

TRIES_MAX: Final = 16
"""Claims tried in one pass."""
RECALLS_MAX: Final = 16
"""Sets of borrowers tried for one claim, in addition to the first one."""
GROW_AGAIN_MS: Final = 60_000
"""Interval at which the growth of an elastic gang is considered again, while there is room for it."""
T = TypeVar("T")
Candidate = tuple[RunningRow, PreemptionCause]
"""A session that may be preempted, and why."""


class PreemptionClaim(Struct, frozen=True, kw_only=True):
    """Devices held for a session until its victims have released them."""

    kernels: tuple[KernelPlacement, ...]
    at_us: int
    """When the last victim is expected to have ended."""
    leaving: tuple[SessionId, ...]
    """Sessions that it waits for, sorted by id."""


class PreemptionClaims:
    """The claims of one pass."""

    def __init__(self, context: PassContext) -> None:
        self._context = context
        self._rules = context.policy.preemption
        self._tries = 0
        self._allowed_us: int | None = None
        """Of the last claim: when a session that is left alone now may be preempted."""
        self.again_us: int | None = None
        """When a claim that was refused may succeed, microseconds UTC; None = at the next event."""
        self.evictions: list[Eviction] = []

    def claim(
        self, row: PendingRow, *, left_ms: int, capacity: FreeCapacity, running: list[RunningRow], quotas: QuotaTracker
    ) -> PreemptionClaim | None:
        """Preempt for a row that does not fit; None if it may not preempt, or preemption would not help.

        Args:
            left_ms: see `ordering.left_ms`; read under a preemptive order alone.
            capacity: free now; earlier claims are held in it.
            running: all sessions that hold devices in it; victims are marked as leaving there.
        """
        causes = self._allowed_causes(row, quotas)
        if not causes or (self._tries >= TRIES_MAX and PreemptionCause.BOOKING not in causes):
            return None
        self._tries += 1
        self._allowed_us = None
        leaving = [held for held in running if held.is_leaving]
        kernels = self._fit(row, leaving, capacity=capacity) if leaving else ()
        victims: Sequence[Candidate] = ()
        if len(kernels) < row.cluster_size:
            candidates = self._candidates(row, causes, left_ms=left_ms, running=running, quotas=quotas)
            victims = self._victims(row, candidates, leaving, capacity=capacity, quotas=quotas)
            kernels = self._fit(row, [*leaving, *(held for held, _ in victims)], capacity=capacity) if victims else ()
        if len(kernels) < row.cluster_size:
            self.again_us = min(filter(None, (self.again_us, self._allowed_us)), default=None)
            return None
        released = [*leaving, *self._evicted(row, victims, running=running)]
        waits_for, now_us = [held for held in released if _overlap(held, kernels)], self._context.now_us
        return PreemptionClaim(
            kernels=kernels,
            at_us=max((expected_end_us(held, now_us=now_us) for held in waits_for), default=now_us),
            leaving=tuple(sorted(held.session_id for held in waits_for)),
        )

    @cached_property
    def _displacement(self) -> Displacement:
        return Displacement(self._context.policy, now_us=self._context.now_us)

    def clear_for_maintenance(self, calendar: BookingCalendar, running: list[RunningRow]) -> None:
        """Preempt what runs on nodes whose maintenance begins; it is marked as leaving in `running`."""
        for held, booking in sorted(calendar.cleared(running), key=lambda pair: pair[0].session_id):
            if not held.is_leaving and held in running:
                self._evict(held, PreemptionCause.BOOKING, running=running, by_user=booking.owner)

    def grow(self, *, capacity: FreeCapacity, running: Sequence[RunningRow], quotas: QuotaTracker) -> int | None:
        """Restart the elastic gang that gains most by more kernels, if one gains more than it loses.

        The gain is the part of its remaining run time that more kernels save; the loss is that of a preemption. Only
        sessions that save their work grow.

        Args:
            capacity: free after all that waits was placed.
        Returns:
            When to look again, microseconds UTC; None if no gang has room to grow.
        """
        found: list[tuple[int, SessionId, RunningRow]] = []
        again_us: list[int] = []
        for held in running:
            if held.elastic is None or held.checkpoint_ms is None or held.is_leaving or held.started_us is None:
                continue
            gain_ms = self._growth_ms(held, capacity=capacity, quotas=quotas)
            if gain_ms is None or held.preemptions >= self._rules.preemptions_max:
                continue
            if gain_ms > 0 and self._displacement.is_allowed(held):
                found.append((-gain_ms, held.session_id, held))
            else:
                allowed_us = held.started_us + self._rules.run_ms_min * 1000
                again_us.append(max(allowed_us, self._context.now_us + GROW_AGAIN_MS * 1000))
        if found:
            held = min(found)[2]
            self._record(held, PreemptionCause.GROW, by_user=held.owner, by_session=None)
        return min(again_us, default=None)

    def _growth_ms(self, held: RunningRow, *, capacity: FreeCapacity, quotas: QuotaTracker) -> int | None:
        """Run time that a gang gains by a restart with as many kernels as fit, less its loss; None if no more fit."""
        row, size = held.elastic, len(held.kernels)
        assert row is not None, f"{held.session_id} is not elastic"
        assert row.kernels_max is not None, f"{held.session_id} is not elastic"
        fits = len(self._fit(replace(row, cluster_size=row.kernels_max), [held], capacity=capacity))
        if fits <= size:
            return None
        left_over = quotas.copy()
        left_over.release(held)
        most = left_over.most_kernels(row, least=size, most=fits)
        return None if most == size else self._displacement.growth_gain_ms(held, most)

    def _allowed_causes(self, row: PendingRow, quotas: QuotaTracker) -> tuple[PreemptionCause, ...]:
        """The causes for which this row may preempt others."""
        if self._context.booking_of(row) is not None:
            return (PreemptionCause.BOOKING,)
        if self._rules.preempt is PreemptScope.NONE:
            return ()
        by_priority = (PreemptionCause.PRIORITY,) if self._context.policy.order == "priority" else ()
        by_order = (PreemptionCause.ORDER,) if self._context.policy.order in PREEMPTIVE else ()
        return (*by_priority, *by_order, *((PreemptionCause.QUOTA,) if quotas.may_reclaim(row) else ()))

    def _victims(
        self,
        row: PendingRow,
        candidates: Sequence[Candidate],
        leaving: Sequence[RunningRow],
        *,
        capacity: FreeCapacity,
        quotas: QuotaTracker,
    ) -> Sequence[Candidate]:
        """An inclusion-minimal set that suffices, in addition to `leaving`; empty if none is found."""

        def helps(chosen: Sequence[Candidate]) -> bool:
            released = [*leaving, *(held for held, _ in chosen)]
            return len(self._fit(row, released, capacity=capacity)) == row.cluster_size

        released = sum(held.milli for held in leaving) + sum(held.milli for held, _ in candidates)
        if not candidates or row.milli > capacity.free_milli() + released or not helps(candidates):
            return ()
        enough = (some for some in _sets(candidates, quotas) if some is candidates or helps(some))
        found = (minimal(some, helps) for some in enough)
        return next((victims for victims in found if all(_keeps_own(victims, quotas))), ())

    def _candidates(
        self,
        row: PendingRow,
        causes: Sequence[PreemptionCause],
        *,
        left_ms: int,
        running: Sequence[RunningRow],
        quotas: QuotaTracker,
    ) -> list[Candidate]:
        """Sessions that may be preempted, those with the largest gain, or else the most work left, first."""
        calendar, booking = self._context.calendar, self._context.booking_of(row)
        if calendar is not None and booking is not None:
            guests = [held for held in calendar.guests(booking, running) if not held.is_leaving]
            return [(held, PreemptionCause.BOOKING) for held in sorted(guests, key=self._work_left)]
        found: list[Candidate] = []
        if PreemptionCause.ORDER in causes:
            displaceable = self._displacement.of(row, running, left_ms=left_ms)
            self._allowed_us = displaceable.again_us
            found = [(held, PreemptionCause.ORDER) for held in displaceable.now]
        by_order = {held.session_id for held, _ in found}
        early: list[RunningRow] = []
        for held in sorted(running, key=self._work_left) if {*causes} - {PreemptionCause.ORDER} else ():
            if held.session_id in by_order:
                continue
            is_lower = held.priority < row.priority and self._is_preemptible(held)
            cause = (
                PreemptionCause.PRIORITY if is_lower and PreemptionCause.PRIORITY in causes else PreemptionCause.QUOTA
            )
            if cause not in causes or (cause is PreemptionCause.QUOTA and not quotas.is_borrower(held)):
                continue
            if self._displacement.is_allowed(held):
                found.append((held, cause))
            else:
                early.append(held)
        allowed_us = self._displacement.next_allowed_us(early)
        self._allowed_us = min(filter(None, (self._allowed_us, allowed_us)), default=None)
        return found

    def _is_preemptible(self, held: RunningRow) -> bool:
        """By a higher priority. Borrowed devices are reclaimed from any session."""
        return held.is_preemptible or self._rules.preempt is PreemptScope.ANY

    def _work_left(self, held: RunningRow) -> tuple[int, bool, SessionId]:
        """Sort key: the most work left first, then preemptible sessions, then the lower id."""
        estimate_ms = ESTIMATE_MS_UNKNOWN if held.estimate_ms is None else held.estimate_ms
        has_run_ms = 0 if held.started_us is None else (self._context.now_us - held.started_us) // 1000
        return -max(estimate_ms - has_run_ms, 0) * held.milli, not held.is_preemptible, held.session_id

    def _fit(
        self, row: PendingRow, released: Sequence[RunningRow], *, capacity: FreeCapacity
    ) -> tuple[KernelPlacement, ...]:
        return self._context.placer(self._context.free_capacity(used_without(released, capacity=capacity))).place(row)

    def _evicted(self, row: PendingRow, victims: Iterable[Candidate], *, running: list[RunningRow]) -> list[RunningRow]:
        return [
            self._evict(held, cause, running=running, by_user=row.owner, by_session=row.session_id)
            for held, cause in victims
        ]

    def _record(
        self, held: RunningRow, cause: PreemptionCause, *, by_user: UserId, by_session: SessionId | None
    ) -> int:
        """Record an eviction; returns its grace."""
        grace_ms = self._rules.grace_ms if held.grace_ms is None else held.grace_ms
        self.evictions.append(
            Eviction(
                session_id=held.session_id,
                version=held.version,
                cause=cause,
                by_session=by_session,
                by_user=by_user,
                grace_ms=grace_ms,
            )
        )
        return grace_ms

    def _evict(
        self,
        held: RunningRow,
        cause: PreemptionCause,
        *,
        running: list[RunningRow],
        by_user: UserId,
        by_session: SessionId | None = None,
    ) -> RunningRow:
        """Record an eviction and mark the victim as leaving."""
        grace_ms = self._record(held, cause, by_user=by_user, by_session=by_session)
        place = next(index for index, other in enumerate(running) if other is held)
        running[place] = replace(held, is_leaving=True, ends_us=self._context.now_us + grace_ms * 1000)
        return running[place]


def minimal(candidates: Sequence[T], helps: Callable[[Sequence[T]], bool]) -> list[T]:
    """An inclusion-minimal part of candidates that help together; the first ones are preferred."""
    low, high = 1, len(candidates)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if helps(candidates[:middle]) else (middle + 1, high)
    chosen = list(candidates[:high])
    for held in reversed(chosen[:-1]):
        rest = [other for other in chosen if other is not held]
        chosen = rest if helps(rest) else chosen
    return chosen


def _sets(candidates: Sequence[Candidate], quotas: QuotaTracker) -> Iterator[Sequence[Candidate]]:
    """Sets to try: those that leave each project what it owns, from the first or near one left out; at last all."""
    is_kept = _keeps_own(candidates, quotas)
    yield candidates if all(is_kept) else list(compress(candidates, is_kept))
    left_out = [held for (held, _), is_first in zip(candidates, is_kept, strict=True) if not is_first]
    orders = [_near(seed, candidates) for seed in left_out[:RECALLS_MAX]]
    yield from (list(compress(near, _keeps_own(near, quotas))) for near in orders)
    yield from (candidates, *orders) if orders else ()


def _keeps_own(candidates: Iterable[Candidate], quotas: QuotaTracker) -> list[bool]:
    return quotas.keeps_own((held, cause is PreemptionCause.QUOTA) for held, cause in candidates)


def _near(seed: RunningRow, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates in another order: the seed, those on its devices, those on its agents, and the rest by agent."""
    rank = {kernel.agent_id: place for place, (held, _) in enumerate(candidates) for kernel in held.kernels}
    rank |= {kernel.agent_id: -1 for kernel in seed.kernels}
    return sorted(
        candidates,
        key=lambda one: (
            one[0] is not seed,
            not _overlap(one[0], seed.kernels),
            min((rank[kernel.agent_id] for kernel in one[0].kernels), default=0),
        ),
    )


def _overlap(held: RunningRow, kernels: Iterable[KernelPlacement]) -> bool:
    """Whether a session holds (a part of) a device that these kernels are to get."""
    return not devices_held(held.kernels).isdisjoint(devices_held(kernels))
