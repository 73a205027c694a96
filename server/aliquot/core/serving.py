"""Serving the line: who starts now, in order; and, while the first one waits, who may pass it."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from aliquot.core.backfill import Headroom, Scene, reserve
from aliquot.core.guards import guards_ms
from aliquot.core.placement.placer import Placer
from aliquot.core.plan import KernelPlacement, Placement, Reservation
from aliquot.core.queue import KIND, LEAST_MILLI, IntArray, Queue, kind_of
from aliquot.core.room import Room
from aliquot.core.shortage import shortage
from aliquot.core.snapshot import PendingRow, RunningRow
from aliquot_schema.ids import SessionId
from aliquot_schema.policies import Backfill
from aliquot_schema.reasons import Evidence, Reason, Verdict


class Serving:
    """One pass over the line. Rows of one kind are placed alike, so what did not fit once does not fit again."""

    def __init__(self, queue: Queue, scene: Scene) -> None:
        self._queue = queue
        self._scene = scene
        self._kinds = queue.column(KIND)
        self._guards_us = guards_ms(queue, scene.policy) * 1000
        self._room = Room(scene.snapshot, scene.policy)
        self._free_milli = self._room.free_milli()
        self._least_milli = queue.column(LEAST_MILLI)
        self._running: list[RunningRow] = list(scene.snapshot.running)
        self._blocked: list[PendingRow] = []
        """The first of each kind that did not fit, in order; the first one that can be promised a time is the head."""
        self._headroom: Headroom | None = None
        self.placements: list[Placement] = []

    def serve(self, line: IntArray) -> None:
        """Place everybody who may start.

        Args:
            line: positions in the queue, the next one first.
        """
        rest = line
        while len(rest):
            position = int(rest[0])
            row = self._queue[position]
            kernels = self._place(position, row)
            if len(kernels) < row.cluster_size:
                self._blocked.append(row)
                if self._scene.policy.backfill is Backfill.NONE:
                    return
                rest = rest[self._kinds[rest] != self._kinds[position]]
            elif self._start(position, row, kernels):
                rest = rest[1:]
            else:
                rest = rest[(self._kinds[rest] != self._kinds[position]) | ~self._outlast(rest)]

    def promise(self) -> Reservation | None:
        """What the first one that waits is promised."""
        if self._headroom is None and self._scene.policy.backfill is not Backfill.NONE:
            self._headroom = self._reserve()
        return self._headroom.reservation if self._headroom is not None else None

    def verdicts(self, line: IntArray) -> dict[SessionId, Verdict]:
        """Why each of the others in the line waits, in its order."""
        placed = {placement.session_id for placement in self.placements}
        waiting = [row for row in (self._queue[position] for position in line.tolist()) if row.session_id not in placed]
        if self._scene.policy.backfill is Backfill.NONE:
            return self._behind_head(waiting)
        known = {}
        for row in waiting:
            kind = kind_of(row)
            if kind not in known:
                known[kind] = self._verdict(row)
        return {row.session_id: known[kind_of(row)] for row in waiting}

    @cached_property
    def _placer(self) -> Placer:
        return Placer(self._scene.snapshot, self._scene.policy, room=self._room, seed=self._scene.seed)

    def _place(self, position: int, row: PendingRow) -> tuple[KernelPlacement, ...]:
        """As many kernels as fit now; none where the sum of what is free says already that not all do."""
        return self._placer.place(row) if self._least_milli[position] <= self._free_milli else ()

    def _start(self, position: int, row: PendingRow, kernels: tuple[KernelPlacement, ...]) -> bool:
        """Start a row that fits now, unless that would delay the head."""
        headroom = self._headroom = self._headroom or self._reserve()
        outlasts = headroom is not None and bool(self._outlast(np.array([position]))[0])
        if headroom is not None and outlasts:
            kernels = headroom.place(row, kernels)
            if len(kernels) < row.cluster_size:
                return False
        self._placer.take(row.session_id, kernels)
        if headroom is not None:
            headroom.take(row, kernels, outlasts=outlasts)
        ends_us = self._scene.now_us + int(self._guards_us[position])
        running = RunningRow.of(row.session_id, kernels, ends_us=ends_us, agents=self._scene.snapshot.agents)
        self._running.append(running)
        self._free_milli = self._room.free_milli() if running.milli else self._free_milli
        self.placements.append(Placement(session_id=row.session_id, version=row.version, kernels=kernels))
        return True

    def _reserve(self) -> Headroom | None:
        """Those that would not fit even if everybody else ended wait for somebody who holds without a known end."""
        while self._blocked:
            headroom = reserve(self._blocked.pop(0), room=self._room, running=self._running, scene=self._scene)
            if headroom is not None:
                return headroom
        return None

    def _outlast(self, positions: IntArray) -> npt.NDArray[np.bool_]:
        """Which of these rows may still run when the head is to start."""
        at_us = self._headroom.reservation.at_us if self._headroom is not None else None
        if at_us is None:
            return np.ones(len(positions), dtype=np.bool_)
        return self._scene.now_us + self._guards_us[positions] > at_us

    def _behind_head(self, waiting: Sequence[PendingRow]) -> dict[SessionId, Verdict]:
        if not waiting:
            return {}
        head = waiting[0]
        behind = Verdict(reason=Reason.BEHIND_HEAD, evidence=Evidence(blocked_by=(head.session_id,)))
        return {head.session_id: self._verdict(head)} | {row.session_id: behind for row in waiting[1:]}

    def _verdict(self, row: PendingRow) -> Verdict:
        kernels = self._placer.place(row)
        reservation = self.promise()
        if len(kernels) < row.cluster_size or reservation is None:
            return shortage(row, self._room, fits_kernels=len(kernels))
        evidence = Evidence(blocked_by=(reservation.session_id,), until_us=reservation.at_us)
        return Verdict(reason=Reason.RESERVED, evidence=evidence)
