"""Serving the line: who starts now, in order; and, while the first one waits, who may pass it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from operator import attrgetter
from typing import Final

import numpy as np
import numpy.typing as npt

from aliquot.core.backfill import Headroom, Scene, reserve
from aliquot.core.conservative import Slot, Timetable
from aliquot.core.endings import Ends
from aliquot.core.guards import guards_ms
from aliquot.core.placer import Placer
from aliquot.core.plan import Eviction, KernelPlacement, Placement, Reservation
from aliquot.core.preemption import Claims
from aliquot.core.preferences import preferred
from aliquot.core.queue import KIND, LEAST_MILLI, IntArray, Queue
from aliquot.core.quota import QuotaBook
from aliquot.core.room import Room
from aliquot.core.shortage import shortage
from aliquot.core.snapshot import PendingRow, RunningRow, held_milli
from aliquot_schema.ids import SessionId, task_id
from aliquot_schema.policies import Backfill
from aliquot_schema.reasons import Evidence, Reason, Verdict

_NAME: Final = attrgetter("session_id")


class Serving:
    """One pass over the line. Rows of one kind are placed alike, so what did not fit once does not fit again."""

    def __init__(self, queue: Queue, scene: Scene) -> None:
        self._queue = queue
        self._scene = scene
        self._kinds = queue.column(KIND)
        self._guards_us = guards_ms(queue, scene.policy) * 1000
        self._room = Room(scene.snapshot, scene.policy, memo=scene.memo)
        self._free_milli = self._room.free_milli()
        self._least_milli = queue.column(LEAST_MILLI)
        self._running: list[RunningRow] = list(scene.snapshot.running)
        self._is_left = np.ones(len(queue), dtype=np.bool_)
        """[rows] whether it, or a task of it, still waits."""
        self._blocked: list[PendingRow] = []
        """The first of each kind that did not fit, in order; the first one that can be promised a time is the head."""
        self._headroom: Headroom | None = None
        self._quotas = QuotaBook(scene.snapshot, policy=scene.policy, now_us=scene.now_us)
        self._claims = Claims(scene)
        self._asides: dict[SessionId, Verdict] = {}
        """Why those wait that were passed over, and block nobody."""
        self._tasks_started: Counter[SessionId] = Counter()
        self.placements: list[Placement] = []
        self.promises: list[Reservation] = []
        """Under conservative backfill, in queue order."""

    def serve(self, line: IntArray) -> None:
        """Place everybody who may start.

        Args:
            line: positions in the queue, the next one first.
        """
        if self._scene.policy.backfill is Backfill.CONSERVATIVE:
            self._serve_by_timetable(line)
            return
        rest = line
        while len(rest):
            position = int(rest[0])
            row = self._queue[position]
            refusal = self._quotas.refusal(row)
            if refusal is not None:
                self._asides[row.session_id] = refusal
                rest = rest[1:]
                continue
            kernels = self._place(position, row)
            if len(kernels) < row.cluster_size:
                if row.at_once:
                    rest = rest[1:]
                    continue
                if not self._blocked and self._claim(position, row):
                    rest = rest[1:]
                    continue
                self._blocked.append(row)
                if self._scene.policy.backfill is Backfill.NONE:
                    return
                rest = rest[self._kinds[rest] != self._kinds[position]]
            elif self._start(position, row, kernels):
                rest = rest if self._tasks_started[row.session_id] in range(1, row.tasks_startable) else rest[1:]
            else:
                rest = rest[(self._kinds[rest] != self._kinds[position]) | ~self._outlast(rest)]

    def promise(self) -> Reservation | None:
        """What the first one that waits is promised."""
        if self._scene.policy.backfill is Backfill.CONSERVATIVE:
            return self.promises[0] if self.promises else None
        if self._headroom is None and self._scene.policy.backfill is not Backfill.NONE:
            self._headroom = self._reserve()
        return self._headroom.reservation if self._headroom is not None else None

    def verdicts(self, line: IntArray) -> dict[SessionId, Verdict]:
        """Why each of the others in the line waits, in its order."""
        waiting = line[self._is_left[line]]
        names = list(map(_NAME, map(self._queue.rows.__getitem__, waiting.tolist())))
        verdicts = self._behind_head if self._scene.policy.backfill is Backfill.NONE else self._by_kind
        return dict(zip(names, verdicts(waiting, names), strict=True))

    def leave(self) -> None:
        """Let the next pass begin with what this one found out, if anything."""
        if "_placer" in self.__dict__:
            self._placer.keep()

    @property
    def asides(self) -> Mapping[SessionId, Verdict]:
        """Why those wait that were passed over."""
        return self._asides

    @property
    def evictions(self) -> tuple[Eviction, ...]:
        """Who is to make room."""
        return tuple(self._claims.evictions)

    def _by_kind(self, waiting: IntArray, names: Sequence[SessionId]) -> list[Verdict]:
        """Rows of one kind wait for one reason, but for those that were passed over."""
        kinds, asides = self._kinds[waiting], self._asides
        judged = np.array([name not in asides for name in names], dtype=np.bool_) if asides else slice(None)
        _, firsts = np.unique(kinds[judged], return_index=True)
        leaders = waiting[judged][np.sort(firsts)].tolist()
        known = {int(self._kinds[position]): self._verdict(self._queue[position]) for position in leaders}
        if not asides:
            return [known[kind] for kind in kinds.tolist()]
        return [asides.get(name) or known[kind] for name, kind in zip(names, kinds.tolist(), strict=True)]

    @cached_property
    def _placer(self) -> Placer:
        return Placer(self._scene.snapshot, self._scene.policy, room=self._room, seed=self._scene.seed)

    def _place(self, position: int, row: PendingRow) -> tuple[KernelPlacement, ...]:
        """As many kernels as fit now; none where the sum of what is free says already that not all do."""
        if self._least_milli[position] > self._free_milli:
            return ()
        for where in preferred(row.where, roster=self._room.roster):
            kernels = self._placer.place(replace(row, where=where))
            if len(kernels) == row.cluster_size:
                return kernels
        return self._placer.place(row)

    def _serve_by_timetable(self, line: IntArray) -> None:
        """Place whoever delays nobody before him; of those that wait, promise a time to as many as the policy says."""
        table = Timetable(self._scene, room=self._room, running=self._running)
        rest = list(line)
        while rest:
            position = int(rest[0])
            row, guard_us = self._queue[position], max(int(self._guards_us[position]), 1)
            refusal = self._quotas.refusal(row)
            if refusal is not None:
                self._asides[row.session_id] = refusal
                rest = rest[1:]
                continue
            slot = self._slot(table, position)
            if row.at_once and (slot is None or slot.at_us > self._scene.now_us):
                rest = rest[1:]
                continue
            if slot is None or slot.at_us > self._scene.now_us:
                if not self._blocked and self._claim(position, row):
                    # Nobody is promised anything yet, so that the times can be made anew with those who leave.
                    table = Timetable(self._scene, room=self._room, running=self._running)
                    rest = rest[1:]
                    continue
                self._blocked.append(row)
            if slot is None:
                rest = rest[1:]
                continue
            table.book(slot, guard_us=guard_us)
            if slot.at_us > self._scene.now_us:
                at_us = slot.at_us if slot.at_us > self._scene.now_us + 1 else None
                promise = Reservation(session_id=row.session_id, at_us=at_us, kernels=slot.kernels)
                self.promises.append(promise)
                rest = rest[1:]
            else:
                self._grant(position, row, slot.kernels)
                rest = rest if self._tasks_started[row.session_id] in range(1, row.tasks_startable) else rest[1:]

    def _slot(self, table: Timetable, position: int) -> Slot | None:
        """When a row may start; None when it may not now, and is promised nothing."""
        row, guard_us = self._queue[position], max(int(self._guards_us[position]), 1)
        milli = int(self._least_milli[position])
        if len(self.promises) < self._scene.policy.backfill_depth and not row.at_once:
            return table.first(row, guard_us=guard_us, milli=milli)
        return table.now(row, guard_us=guard_us, milli=milli)

    def _claim(self, position: int, row: PendingRow) -> bool:
        """Let others make room for a row, if that is its right; what it is to get is kept for it."""
        claim = self._claims.claim(row, room=self._room, running=self._running, quotas=self._quotas)
        if claim is None:
            return False
        ends_us = claim.at_us + int(self._guards_us[position])
        self._take(row.session_id, claim.kernels, ends_us=ends_us)
        evidence = Evidence(blocked_by=claim.leaving, until_us=claim.at_us)
        self._asides[row.session_id] = Verdict(reason=Reason.MAKING_ROOM, evidence=evidence)
        self._quotas.take(row)
        return True

    def _take(self, name: SessionId, kernels: Sequence[KernelPlacement], *, ends_us: int) -> None:
        """Count kernels as held until then."""
        self._placer.take(name, kernels)
        milli = held_milli(kernels, agents=self._room.roster.by_id)
        self._running.append(RunningRow(session_id=name, ends_us=ends_us, kernels=tuple(kernels), milli=milli))
        self._free_milli = self._room.free_milli()

    def _start(self, position: int, row: PendingRow, kernels: tuple[KernelPlacement, ...]) -> bool:
        """Start a row that fits now, unless that would delay the head."""
        headroom = self._headroom = self._headroom or self._reserve()
        outlasts = headroom is not None and bool(self._outlast(np.array([position]))[0])
        if headroom is not None and outlasts:
            kernels = headroom.place(row, kernels)
            if len(kernels) < row.cluster_size:
                return False
        self._grant(position, row, kernels)
        if headroom is not None:
            headroom.take(row, kernels, outlasts=outlasts)
        return True

    def _grant(self, position: int, row: PendingRow, kernels: tuple[KernelPlacement, ...]) -> None:
        """Count the next task of a row as started."""
        index = None if row.tasks is None else row.tasks.nth(self._tasks_started[row.session_id])
        name = row.session_id if index is None else task_id(row.session_id, index=index)
        self._take(name, kernels, ends_us=self._scene.now_us + int(self._guards_us[position]))
        self._count_started(position, row)
        self._quotas.take(row)
        self.placements.append(Placement(session_id=row.session_id, version=row.version, kernels=kernels, index=index))

    def _count_started(self, position: int, row: PendingRow) -> None:
        if row.tasks is None:
            self._is_left[position] = False
            return
        self._tasks_started[row.session_id] += 1
        started = self._tasks_started[row.session_id]
        self._is_left[position] = started < len(row.tasks)
        if row.tasks_startable <= started < len(row.tasks):
            self._asides[row.session_id] = Verdict(reason=Reason.ARRAY_LIMIT)

    def _reserve(self) -> Headroom | None:
        """Those that would not fit even if everybody else ended wait for somebody who holds without a known end."""
        while self._blocked:
            head, ends = self._blocked.pop(0), self._ends()
            headroom = reserve(head, room=self._room, ends=ends, scene=self._scene, placer=self._placer)
            if headroom is not None:
                return headroom
        return None

    def _ends(self) -> Ends:
        """Of all who run, those included that this pass has placed or asked to make room."""
        before = self._scene.snapshot.running
        if isinstance(before, tuple) and len(before) == len(self._running) and not self._claims.evictions:
            return self._scene.memo.ends(before)
        return Ends(self._running)

    def _outlast(self, positions: IntArray) -> npt.NDArray[np.bool_]:
        """Which of these rows may still run when the head is to start."""
        at_us = self._headroom.reservation.at_us if self._headroom is not None else None
        if at_us is None:
            return np.ones(len(positions), dtype=np.bool_)
        return self._scene.now_us + self._guards_us[positions] > at_us

    def _behind_head(self, waiting: IntArray, names: Sequence[SessionId]) -> list[Verdict]:
        head = next((place for place, name in enumerate(names) if name not in self._asides), len(names))
        found = [self._asides[name] for name in names[:head]]
        if head < len(names):
            found.append(self._verdict(self._queue[int(waiting[head])]))
            behind = Verdict(reason=Reason.BEHIND_HEAD, evidence=Evidence(blocked_by=(names[head],)))
            found += [self._asides.get(name, behind) for name in names[head + 1 :]]
        return found

    def _verdict(self, row: PendingRow) -> Verdict:
        kernels = self._placer.place(row)
        reservation = self.promise()
        if len(kernels) < row.cluster_size or reservation is None:
            return shortage(row, self._room, fits_kernels=len(kernels))
        evidence = Evidence(blocked_by=(reservation.session_id,), until_us=reservation.at_us)
        return Verdict(reason=Reason.RESERVED, evidence=evidence)
