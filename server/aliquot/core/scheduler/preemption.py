"""Preemption: chooses victims for a session that may preempt, and holds their devices for it.

A claim covers a whole session or nothing, and its set of victims is inclusion-minimal: without any one of them the
session would not fit. Victims with the most expected work left are preferred.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from aliquot.core.model.plan import Eviction, KernelPlacement
from aliquot.core.model.snapshot import PendingRow, RunningRow
from aliquot.core.quota import QuotaBook
from aliquot.core.scheduler.backfill import PassContext, used_without
from aliquot.core.scheduler.expected_ends import ESTIMATE_MS_UNKNOWN, expected_end_us
from aliquot.core.scheduler.free_capacity import FreeCapacity
from aliquot_schema.ids import SessionId
from aliquot_schema.policies import PreemptScope
from aliquot_schema.sessions import PreemptionCause

TRIES_MAX: Final = 16
"""Claims tried in one pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionClaim:
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
        self.evictions: list[Eviction] = []

    def claim(
        self, row: PendingRow, *, capacity: FreeCapacity, running: list[RunningRow], quotas: QuotaBook
    ) -> PreemptionClaim | None:
        """Preempt for a row that does not fit; None if it may not preempt, or preemption would not help.

        Args:
            capacity: free now; earlier claims are held in it.
            running: all sessions that hold devices in it; victims are marked as leaving there.
        """
        causes = self._allowed_causes(row, quotas)
        if not causes or self._tries == TRIES_MAX:
            return None
        self._tries += 1
        leaving = [held for held in running if held.is_leaving]
        kernels = self._fit(row, leaving, capacity=capacity) if leaving else ()
        victims: list[tuple[RunningRow, PreemptionCause]] = []
        if len(kernels) < row.cluster_size:
            victims = self._victims(row, causes, leaving, capacity=capacity, running=running, quotas=quotas)
            kernels = self._fit(row, [*leaving, *(held for held, _ in victims)], capacity=capacity) if victims else ()
        if len(kernels) < row.cluster_size:
            return None
        released = [*leaving, *(self._evict(row, held, cause, running=running) for held, cause in victims)]
        waits_for, now_us = [held for held in released if _overlap(held, kernels)], self._context.now_us
        return PreemptionClaim(
            kernels=kernels,
            at_us=max((expected_end_us(held, now_us=now_us) for held in waits_for), default=now_us),
            leaving=tuple(sorted(held.session_id for held in waits_for)),
        )

    def _allowed_causes(self, row: PendingRow, quotas: QuotaBook) -> tuple[PreemptionCause, ...]:
        """The causes for which this row may preempt others."""
        if self._rules.preempt is PreemptScope.NONE:
            return ()
        by_priority = (PreemptionCause.PRIORITY,) if self._context.policy.order == "priority" else ()
        return (*by_priority, PreemptionCause.QUOTA) if quotas.may_reclaim(row) else by_priority

    def _victims(
        self,
        row: PendingRow,
        causes: Sequence[PreemptionCause],
        leaving: Sequence[RunningRow],
        *,
        capacity: FreeCapacity,
        running: Iterable[RunningRow],
        quotas: QuotaBook,
    ) -> list[tuple[RunningRow, PreemptionCause]]:
        """An inclusion-minimal set that suffices, in addition to `leaving`; empty if there is none."""
        candidates = self._candidates(row, causes, running=running, quotas=quotas)

        def helps(chosen: Sequence[tuple[RunningRow, PreemptionCause]]) -> bool:
            released = [*leaving, *(held for held, _ in chosen)]
            return len(self._fit(row, released, capacity=capacity)) == row.cluster_size

        if not candidates or not helps(candidates):
            return []
        low, high = 1, len(candidates)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if helps(candidates[:middle]) else (middle + 1, high)
        chosen = candidates[:high]
        for held in reversed(chosen[:-1]):
            rest = [other for other in chosen if other is not held]
            if helps(rest):
                chosen = rest
        return chosen

    def _candidates(
        self,
        row: PendingRow,
        causes: Sequence[PreemptionCause],
        *,
        running: Iterable[RunningRow],
        quotas: QuotaBook,
    ) -> list[tuple[RunningRow, PreemptionCause]]:
        """Sessions that may be preempted, those with the most work left first."""
        found: list[tuple[RunningRow, PreemptionCause]] = []
        remaining_quotas = quotas.copy()
        for held in sorted(running, key=self._work_left):
            if not self._is_evictable(held):
                continue
            is_lower = held.priority < row.priority and self._is_preemptible(held)
            if PreemptionCause.PRIORITY in causes and is_lower:
                found.append((held, PreemptionCause.PRIORITY))
            elif PreemptionCause.QUOTA in causes and remaining_quotas.is_borrower(held):
                remaining_quotas.release(held)
                found.append((held, PreemptionCause.QUOTA))
        return found

    def _is_evictable(self, held: RunningRow) -> bool:
        if held.is_leaving or held.started_us is None or held.preemptions >= self._rules.preemptions_max:
            return False
        return self._context.now_us - held.started_us >= self._rules.run_ms_min * 1000

    def _is_preemptible(self, held: RunningRow) -> bool:
        """By a higher priority. Borrowed devices are reclaimed from any session."""
        return held.is_preemptible or self._rules.preempt is PreemptScope.ANY

    def _work_left(self, held: RunningRow) -> tuple[int, SessionId]:
        """Sort key: the most work left first, then the lower id."""
        estimate_ms = ESTIMATE_MS_UNKNOWN if held.estimate_ms is None else held.estimate_ms
        has_run_ms = 0 if held.started_us is None else (self._context.now_us - held.started_us) // 1000
        return -max(estimate_ms - has_run_ms, 0) * held.milli, held.session_id

    def _fit(
        self, row: PendingRow, released: Sequence[RunningRow], *, capacity: FreeCapacity
    ) -> tuple[KernelPlacement, ...]:
        return self._context.placer(self._context.free_capacity(used_without(released, capacity=capacity))).place(row)

    def _evict(
        self, row: PendingRow, held: RunningRow, cause: PreemptionCause, *, running: list[RunningRow]
    ) -> RunningRow:
        """Record an eviction and mark the victim as leaving."""
        grace_ms = self._rules.grace_ms if held.grace_ms is None else held.grace_ms
        self.evictions.append(
            Eviction(
                session_id=held.session_id,
                version=held.version,
                cause=cause,
                by_session=row.session_id,
                by_user=row.owner,
                grace_ms=grace_ms,
            )
        )
        place = next(index for index, other in enumerate(running) if other is held)
        running[place] = replace(held, is_leaving=True, ends_us=self._context.now_us + grace_ms * 1000)
        return running[place]


def _overlap(held: RunningRow, kernels: Iterable[KernelPlacement]) -> bool:
    """Whether a session holds (a part of) a device that these kernels are to get."""
    wanted = {(kernel.node_id, device) for kernel in kernels for given in kernel.spec.values() for device in given}
    return any(
        (kernel.node_id, device) in wanted
        for kernel in held.kernels
        for given in kernel.spec.values()
        for device in given
    )
