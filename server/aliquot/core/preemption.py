"""Preemption: who is to make room so that a session of a higher right can start, and what is then kept for it.

A claim is made for a whole session or not at all, and the set of its victims is inclusion-minimal: without any one of
them it would not fit. Those are preferred that have most of their expected run before them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from aliquot.core.backfill import Scene, without
from aliquot.core.guards import ESTIMATE_UNKNOWN_MS
from aliquot.core.plan import Eviction, KernelPlacement
from aliquot.core.quota import QuotaBook
from aliquot.core.room import Room
from aliquot.core.snapshot import PendingRow, RunningRow
from aliquot_schema.ids import SessionId
from aliquot_schema.policies import Victims
from aliquot_schema.sessions import PreemptionCause

TRIES_MAX: Final = 16
"""Claims that are looked into in one pass; those that come later wait for the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a session gets once others have made room."""

    kernels: tuple[KernelPlacement, ...]
    at_us: int
    """When the last of them has to be gone."""
    leaving: tuple[SessionId, ...]
    """Those it waits for, by id."""


class Claims:
    """The claims of one pass."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._rules = scene.policy.preemption
        self._tries = 0
        self.evictions: list[Eviction] = []

    def claim(self, row: PendingRow, *, room: Room, running: list[RunningRow], quotas: QuotaBook) -> Claim | None:
        """Have room made for a row that does not fit; None when it has no right to that, or it would not help.

        Args:
            room: as it is now; claims made before are held in it.
            running: everybody who holds something in it; victims are marked there as leaving.
        """
        causes = self._rights(row, quotas)
        if not causes or self._tries == TRIES_MAX:
            return None
        self._tries += 1
        leaving = [held for held in running if held.is_leaving]
        kernels = self._fit(row, leaving, room=room) if leaving else ()
        victims: list[tuple[RunningRow, PreemptionCause]] = []
        if len(kernels) < row.cluster_size:
            victims = self._victims(row, causes, leaving, room=room, running=running, quotas=quotas)
            kernels = self._fit(row, [*leaving, *(held for held, _ in victims)], room=room) if victims else ()
        if len(kernels) < row.cluster_size:
            return None
        gone = [*leaving, *(self._evict(row, held, cause, running=running) for held, cause in victims)]
        waits_for = [held for held in gone if _overlap(held, kernels)]
        return Claim(
            kernels=kernels,
            at_us=max((max(held.ends_us, self._scene.now_us) for held in waits_for), default=self._scene.now_us),
            leaving=tuple(sorted(held.session_id for held in waits_for)),
        )

    def _rights(self, row: PendingRow, quotas: QuotaBook) -> tuple[PreemptionCause, ...]:
        """By what right others may be asked to make room for it."""
        if self._rules.victims is Victims.NOBODY:
            return ()
        by_priority = (PreemptionCause.PRIORITY,) if self._scene.policy.order == "priority" else ()
        return (*by_priority, PreemptionCause.QUOTA) if quotas.may_reclaim(row) else by_priority

    def _victims(
        self,
        row: PendingRow,
        causes: Sequence[PreemptionCause],
        leaving: Sequence[RunningRow],
        *,
        room: Room,
        running: Iterable[RunningRow],
        quotas: QuotaBook,
    ) -> list[tuple[RunningRow, PreemptionCause]]:
        """An inclusion-minimal set that is enough, beside those who leave anyhow; empty when there is none."""
        asked = self._candidates(row, causes, running=running, quotas=quotas)

        def helps(chosen: Sequence[tuple[RunningRow, PreemptionCause]]) -> bool:
            gone = [*leaving, *(held for held, _ in chosen)]
            return len(self._fit(row, gone, room=room)) == row.cluster_size

        if not asked or not helps(asked):
            return []
        low, high = 1, len(asked)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if helps(asked[:middle]) else (middle + 1, high)
        chosen = asked[:high]
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
        """Everybody who may be asked, with most of its expected run left first."""
        found: list[tuple[RunningRow, PreemptionCause]] = []
        lent = quotas.copy()
        for held in sorted(running, key=self._work_left):
            if not self._may_be_asked(held):
                continue
            is_lower = held.priority < row.priority and self._is_willing(held)
            if PreemptionCause.PRIORITY in causes and is_lower:
                found.append((held, PreemptionCause.PRIORITY))
            elif PreemptionCause.QUOTA in causes and lent.is_borrower(held):
                lent.give(held)
                found.append((held, PreemptionCause.QUOTA))
        return found

    def _may_be_asked(self, held: RunningRow) -> bool:
        if held.is_leaving or held.started_us is None or held.preemptions >= self._rules.preemptions_max:
            return False
        return self._scene.now_us - held.started_us >= self._rules.run_ms_min * 1000

    def _is_willing(self, held: RunningRow) -> bool:
        """For a higher priority. Who runs on what others own is not asked whether he is willing: it is theirs."""
        return held.is_preemptible or self._rules.victims is Victims.ANY

    def _work_left(self, held: RunningRow) -> tuple[int, SessionId]:
        """Less than zero is more: for sorting, with the youngest id last among equals."""
        estimate_ms = ESTIMATE_UNKNOWN_MS if held.estimate_ms is None else held.estimate_ms
        has_run_ms = 0 if held.started_us is None else (self._scene.now_us - held.started_us) // 1000
        return -max(estimate_ms - has_run_ms, 0) * held.milli, held.session_id

    def _fit(self, row: PendingRow, gone: Sequence[RunningRow], *, room: Room) -> tuple[KernelPlacement, ...]:
        return self._scene.placer(self._scene.room(without(gone, room=room))).place(row)

    def _evict(
        self, row: PendingRow, held: RunningRow, cause: PreemptionCause, *, running: list[RunningRow]
    ) -> RunningRow:
        """Mark a victim as leaving."""
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
        running[place] = replace(held, is_leaving=True, ends_us=self._scene.now_us + grace_ms * 1000)
        return running[place]


def _overlap(held: RunningRow, kernels: Iterable[KernelPlacement]) -> bool:
    """Whether somebody holds a part of a device that these kernels are to have."""
    wanted = {(kernel.node_id, device) for kernel in kernels for given in kernel.spec.values() for device in given}
    return any(
        (kernel.node_id, device) in wanted
        for kernel in held.kernels
        for given in kernel.spec.values()
        for device in given
    )
