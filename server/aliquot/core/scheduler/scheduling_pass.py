"""Scheduling pass: places eligible sessions in order, with backfill while the head of the queue waits.

Soft constraints (preferred labels and models) are tried before hard ones. A session that does not fit gets a verdict
with its evidence.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from aliquot.core.model.plan import Eviction, KernelPlacement, Placement, Reservation
from aliquot.core.model.queue import KEPT_MS, KIND, LEAST_MILLI, POOL, IntArray, Queue, WaitingVerdicts, first_places
from aliquot.core.model.snapshot import PendingRow, Request, RunningRow, held_milli
from aliquot.core.quota import QuotaTracker
from aliquot.core.scheduler.backfill import BackfillWindow, PassContext, PoolHead
from aliquot.core.scheduler.conservative_backfill import ReservationTable, TimeSlot
from aliquot.core.scheduler.eligibility import preferred
from aliquot.core.scheduler.expected_ends import PlannedEnds, estimates_ms, planned_durations_ms
from aliquot.core.scheduler.free_capacity import FreeCapacity, kind_shortage, shortage
from aliquot.core.scheduler.ordering import PREEMPTIVE, left_ms
from aliquot.core.scheduler.placer import Placer
from aliquot.core.scheduler.preemption import PreemptionClaims
from aliquot_schema.ids import SessionId, task_id
from aliquot_schema.policies import Backfill
from aliquot_schema.reasons import Evidence, Reason, Verdict

CHUNK_MIN: Final = 32
CHUNK_MAX: Final = 4096
"""Rows of the line from which closed kinds are left out at a time: few at first, as most kinds close early."""
OPEN, TO_LONG, TO_ALL = range(3)
"""Rows of a kind that are not tried: none, those that may still run when the head is to start, all."""


class SchedulingPass:
    """One pass over the queue. Rows of one kind are placed alike: if one does not fit, the others are not tried."""

    def __init__(self, queue: Queue, context: PassContext) -> None:
        self._queue = queue
        self._context = context
        self._calendar = context.calendar
        kinds = queue.column(KIND)
        self._kinds = kinds if context.calendar is None else context.calendar.kinds(queue, kinds)
        self._planned_us = planned_durations_ms(queue, context.snapshot.run_times, context.policy) * 1000
        self._capacity = FreeCapacity(context.snapshot, context.policy, cache=context.cache)
        self._least_milli = queue.column(LEAST_MILLI)
        self._running: list[RunningRow] = list(context.snapshot.running)
        """All that hold devices; without those placed after the head has its reservation, which depends on it alone."""
        self._closed = np.full(int(self._kinds.max(initial=-1)) + 1, OPEN, dtype=np.int64)
        """[kinds] which rows of a kind are not tried any more."""
        self._is_left = np.ones(len(queue), dtype=np.bool_)
        """[rows] whether a row, or a task of it, still waits."""
        self._pools = queue.column(POOL)
        self._heads: dict[int, PoolHead] = {}
        """By pool in which a row did not fit, in the order of these rows."""
        self._head_us = np.full(int(self._pools.max(initial=-1)) + 1, -1, dtype=np.int64)
        """[pools] when the head starts beside which others are placed; -1 = there is none yet."""
        self._quotas = QuotaTracker(
            context.snapshot, policy=context.policy, now_us=context.now_us, bookings=context.bookings
        )
        self._claims: PreemptionClaims | None = None  # None = nothing has asked to preempt yet
        if context.calendar is not None:
            self._preempting().clear_for_maintenance(context.calendar, self._running)
        self._skipped: dict[SessionId, Verdict] = {}
        """Verdicts of rows that wait without blocking later ones."""
        self._refused: list[int] = []
        """Positions of rows refused under a quota."""
        self._tasks_started: Counter[SessionId] = Counter()
        self.placements: list[Placement] = []
        self.starts: list[tuple[int, int]] = []
        """Of each placement: the position of its row, and its planned end in microseconds UTC."""
        self._reservations: list[tuple[int, Reservation]] = []
        """Of conservative backfill, in queue order, with the positions of their rows."""

    def place_all(self, line: IntArray) -> None:
        """Place all rows that may start.

        Args:
            line: positions in the queue, the next one first.
        """
        if self._context.policy.backfill is Backfill.CONSERVATIVE:
            self._place_all_conservative(line)
            return
        is_in_order = self._context.policy.backfill is Backfill.NONE
        for position in self._untried(line):
            row = self._queue[position]
            if is_in_order and self._head(position) is not None and self._context.booking_of(row) is None:
                continue
            while self._try(position, row):
                pass
            if is_in_order and self._heads and len(self._head_us) == 1 and not self._context.bookings:
                return

    def grow(self, line: IntArray) -> int | None:
        """Restart an elastic gang with more kernels if nothing waits that could use the room.

        Returns:
            When to look again, microseconds UTC; None = at the next event.
        """
        if self.evictions or not self._context.cache.traits(self._context.snapshot.running).is_elastic:
            return None
        waiting: list[SessionId] = self._queue.names[line[self._is_left[line]]].tolist()
        if any(name not in self._skipped for name in waiting):
            return None
        return self._preempting().grow(
            capacity=self._capacity, running=self._context.snapshot.running, quotas=self._quotas
        )

    def reservations(self) -> tuple[Reservation, ...]:
        """Of conservative backfill all, in queue order; of easy backfill those of the heads of the pools."""
        if self._context.policy.backfill is Backfill.EASY:
            return tuple(filter(None, (head.reserve() for head in self._heads.values())))
        return tuple(reservation for _, reservation in self._reservations)

    def verdicts(self, line: IntArray) -> Mapping[SessionId, Verdict]:
        """Why each remaining row of the line waits, in its order."""
        self._refresh_refusals()
        waiting = line[self._is_left[line]]
        if self._context.policy.backfill is not Backfill.NONE and not self._skipped:
            return WaitingVerdicts(self._queue.names, waiting, self._by_kind(waiting, judged=waiting))
        names: list[SessionId] = self._queue.names[waiting].tolist()
        if self._context.policy.backfill is Backfill.NONE:
            return dict(zip(names, self._behind_head(waiting, names), strict=True))
        judged = waiting[np.flatnonzero([name not in self._skipped for name in names])]
        found = zip(names, self._by_kind(waiting, judged=judged).tolist(), strict=True)
        return {name: self._skipped.get(name) or verdict for name, verdict in found}

    def keep_cache(self) -> None:
        """Store placement scores for the next pass."""
        if "_placer" in self.__dict__:
            self._placer.keep()

    @property
    def skipped(self) -> Mapping[SessionId, Verdict]:
        """Verdicts of rows that wait without blocking later ones."""
        return self._skipped

    def _preempting(self) -> PreemptionClaims:
        self._claims = self._claims or PreemptionClaims(self._context)
        return self._claims

    @property
    def claims_again_us(self) -> int | None:
        """When a session that may displace none now may do so, microseconds UTC; None = at the next event."""
        return None if self._claims is None else self._claims.again_us

    @property
    def evictions(self) -> tuple[Eviction, ...]:
        """Sessions to preempt."""
        return () if self._claims is None else tuple(self._claims.evictions)

    def _refresh_refusals(self) -> None:
        """Bring refusals under quotas to the end of the pass, so that all of them name the same remainder."""
        found: dict[tuple[Verdict, Request, int], Verdict] = {}
        for position in self._refused:
            row = self._queue[position]
            refusal = self._skipped[row.session_id]
            if refusal.reason is Reason.QUOTA:
                key = refusal, row.request, row.cluster_size
                if key not in found:
                    found[key] = self._quotas.refreshed(row, refusal)
                self._skipped[row.session_id] = found[key]

    def _by_kind(self, waiting: IntArray, *, judged: IntArray) -> npt.NDArray[np.object_]:
        """[waiting] verdicts, shared by the rows of one kind. Only rows of kinds among `judged` get one."""
        kinds = self._kinds[waiting]
        known = np.full(int(kinds.max(initial=-1)) + 1, None, dtype=np.object_)
        for place in np.sort(first_places(self._kinds[judged])).tolist():
            position = int(judged[place])
            known[self._kinds[position]] = self._verdict(position)
        return known[kinds]

    @cached_property
    def _left_ms(self) -> IntArray:
        """[rows] see `ordering.left_ms`."""
        expected_ms = estimates_ms(self._queue, self._context.snapshot.run_times)
        return left_ms(self._context.policy.order, expected_ms=expected_ms, had_ms=self._queue.column(KEPT_MS))

    def _untried(self, line: IntArray) -> Iterator[int]:
        """Positions of the line, in order, without the rows of kinds that are closed by the time they come."""
        start, size = 0, CHUNK_MIN
        while start < len(line):
            chunk = line[start : start + size]
            start, size = start + size, min(2 * size, CHUNK_MAX)
            closed = self._closed[self._kinds[chunk]]
            if closed.any():
                chunk = chunk[(closed == OPEN) | ((closed == TO_LONG) & ~self._outlast(chunk))]
            for position, kind in zip(chunk.tolist(), self._kinds[chunk].tolist(), strict=True):
                state = self._closed[kind]
                if state == OPEN or (state == TO_LONG and not self._outlasts(position)):
                    yield position

    def _try(self, position: int, row: PendingRow) -> bool:
        """Start a row, or one task of it, if it may and fits; True if another task of it is to be tried."""
        refusal = self._quotas.refusal(row)
        if refusal is not None:
            self._skipped[row.session_id] = refusal
            self._refused.append(position)
            return False
        kernels = self._place(position, row)
        if len(kernels) >= row.cluster_size:
            if self._start(position, row, kernels):
                return self._tasks_started[row.session_id] in range(1, row.tasks_startable)
            self._closed[self._kinds[position]] = TO_LONG
            return False
        if not row.is_immediate and not self._claim(position, row):
            self._block(position, row)
            self._closed[self._kinds[position]] = TO_ALL
        return False

    @cached_property
    def _placer(self) -> Placer:
        return self._context.placer(self._capacity)

    def _place(self, position: int, row: PendingRow) -> tuple[KernelPlacement, ...]:
        """Kernels that fit now; none if total free capacity is too small for all of them."""
        if self._least_milli[position] > self._capacity.free_milli():
            return ()
        for where in preferred(row.where, agent_index=self._capacity.agent_index):
            kernels = self._placer.place(replace(row, where=where))
            if len(kernels) == row.cluster_size:
                return kernels
        return self._placer.place(row)

    def _place_all_conservative(self, line: IntArray) -> None:
        """Conservative backfill: start rows that delay no reservation; reserve for up to `backfill_depth` others."""
        table = ReservationTable(self._context, capacity=self._capacity, running=self._running)
        reserved: list[tuple[TimeSlot, int]] = []
        for position in line.tolist():
            row, planned_us = self._queue[position], max(int(self._planned_us[position]), 1)
            has_more = True
            while has_more:
                refusal = self._quotas.refusal(row)
                if refusal is not None:
                    self._skipped[row.session_id] = refusal
                    self._refused.append(position)
                    break
                slot = self._slot(table, position)
                if slot is not None and slot.at_us == self._context.now_us:
                    slot = self._grown_slot(table, position, slot)
                    table.book(slot, planned_us=planned_us)
                    self._grant(position, row, slot.kernels)
                    has_more = self._tasks_started[row.session_id] in range(1, row.tasks_startable)
                    continue
                if row.is_immediate:
                    break
                if self._claim(position, row):
                    # The victims leave earlier than the table knows.
                    table = ReservationTable(self._context, capacity=self._capacity, running=self._running)
                    for earlier, lasts_us in reserved:
                        table.book(earlier, planned_us=lasts_us)
                    break
                self._block(position, row)
                if slot is not None:
                    table.book(slot, planned_us=planned_us)
                    reservation = Reservation(session_id=row.session_id, at_us=slot.at_us, kernels=slot.kernels)
                    self._reservations.append((position, reservation))
                    reserved.append((slot, planned_us))
                break

    def _grown_slot(self, table: ReservationTable, position: int, slot: TimeSlot) -> TimeSlot:
        """A start now with as many kernels of an elastic gang as delay no reservation and its quotas allow."""
        row, planned_us = self._queue[position], max(int(self._planned_us[position]), 1)
        if row.kernels_max is None:
            return slot
        each, least = int(self._least_milli[position]) // row.cluster_size, row.cluster_size
        most = self._quotas.most_kernels(row, least=least, most=row.kernels_max)
        while least < most:
            middle = (least + most + 1) // 2
            wider = table.now(replace(row, cluster_size=middle), planned_us=planned_us, milli=each * middle)
            if wider is None:
                most = middle - 1
            else:
                least, slot = middle, wider
        return slot

    def _slot(self, table: ReservationTable, position: int) -> TimeSlot | None:
        """Start of a row, now or reserved; None if it does not fit now and gets no reservation."""
        row, planned_us = self._queue[position], max(int(self._planned_us[position]), 1)
        milli = int(self._least_milli[position])
        if self._context.booking_of(row) is not None:
            # What it may use is kept for its booking, whatever is promised to others.
            kernels = self._place(position, row)
            fits = len(kernels) >= row.cluster_size
            return TimeSlot(at_us=self._context.now_us, kernels=kernels) if fits else None
        if len(self._reservations) < self._context.policy.backfill_depth and not row.is_immediate:
            return table.first(row, planned_us=planned_us, milli=milli)
        return table.now(row, planned_us=planned_us, milli=milli)

    def _claim(self, position: int, row: PendingRow) -> bool:
        """Preempt for a row if it may; the devices it is to get are held for it.

        Behind a blocked row of its pool only a session of a booking may: what it uses is kept for it.
        """
        if (head := self._head(position)) is not None and self._context.booking_of(row) is None:
            return False
        claim = self._preempting().claim(
            row,
            left_ms=int(self._left_ms[position]) if self._context.policy.order in PREEMPTIVE else 0,
            capacity=self._capacity,
            running=self._running,
            quotas=self._quotas,
        )
        if claim is None:
            return False
        ends_us = claim.at_us + int(self._planned_us[position])
        self._take(position, row.session_id, claim.kernels, ends_us=ends_us)
        if head is not None and head.window is not None:
            head.window.take(row, claim.kernels, outlasts=False)
        evidence = Evidence(blocked_by=claim.leaving, until_us=claim.at_us)
        self._skipped[row.session_id] = Verdict(reason=Reason.MAKING_ROOM, evidence=evidence)
        self._quotas.take(row)
        return True

    def _take(self, position: int, name: SessionId, kernels: Sequence[KernelPlacement], *, ends_us: int) -> None:
        """Count kernels as held until `ends_us`."""
        self._placer.take(name, kernels)
        if self._head_us[self._pools[position]] < 0:
            milli = held_milli(kernels, agents=self._capacity.agent_index.by_id)
            self._running.append(RunningRow(session_id=name, ends_us=ends_us, kernels=tuple(kernels), milli=milli))

    def _start(self, position: int, row: PendingRow, kernels: tuple[KernelPlacement, ...]) -> bool:
        """Start a row that fits now, unless that would delay the head."""
        window = self._open_window(position)
        outlasts = window is not None and self._outlasts(position)
        if window is not None and outlasts:
            kernels = window.place(row, kernels)
            if len(kernels) < row.cluster_size:
                return False
        kernels = self._grown(row, kernels, placer=window.placer if window is not None and outlasts else self._placer)
        self._grant(position, row, kernels)
        if window is not None:
            window.take(row, kernels, outlasts=outlasts)
        return True

    def _grown(
        self, row: PendingRow, kernels: tuple[KernelPlacement, ...], *, placer: Placer
    ) -> tuple[KernelPlacement, ...]:
        """The kernels of an elastic gang that is about to start: as many as fit and its quotas allow."""
        if row.kernels_max is None:
            return kernels
        wide: tuple[KernelPlacement, ...] = ()
        for where in (*preferred(row.where, agent_index=self._capacity.agent_index), row.where):
            found = placer.place(replace(row, where=where, cluster_size=row.kernels_max))
            wide = max(wide, found, key=len)
            if len(wide) == row.kernels_max:
                break
        if len(wide) <= len(kernels):
            return kernels
        return wide[: self._quotas.most_kernels(row, least=len(kernels), most=len(wide))]

    def _grant(self, position: int, row: PendingRow, kernels: tuple[KernelPlacement, ...]) -> None:
        """Count the next task of a row as started."""
        index = None if row.tasks is None else row.tasks.nth(self._tasks_started[row.session_id])
        name = row.session_id if index is None else task_id(row.session_id, index=index)
        ends_us = self._context.now_us + int(self._planned_us[position])
        self._take(position, name, kernels, ends_us=ends_us)
        self.starts.append((position, ends_us))
        self._count_started(position, row)
        self._quotas.take(row if len(kernels) == row.cluster_size else replace(row, cluster_size=len(kernels)))
        self.placements.append(Placement(session_id=row.session_id, version=row.version, kernels=kernels, index=index))

    def _count_started(self, position: int, row: PendingRow) -> None:
        if row.tasks is None:
            self._is_left[position] = False
            return
        self._tasks_started[row.session_id] += 1
        started = self._tasks_started[row.session_id]
        self._is_left[position] = started < len(row.tasks)
        if row.tasks_startable <= started < len(row.tasks):
            self._skipped[row.session_id] = Verdict(reason=Reason.ARRAY_LIMIT)

    def _head(self, position: int) -> PoolHead | None:
        """The head of a row's pool; None = all rows of the pool have fit so far."""
        return self._heads.get(int(self._pools[position]))

    def _block(self, position: int, row: PendingRow) -> None:
        """Note that a row does not fit."""
        head = PoolHead(self._capacity, self._context, ends=self._ends, placer=self._placer)
        self._heads.setdefault(int(self._pools[position]), head).blocked.append(row)

    def _open_window(self, position: int) -> BackfillWindow | None:
        head = self._head(position)
        window = None if head is None else head.open_window()
        if window is not None and window.reservation.at_us is not None:
            self._head_us[self._pools[position]] = window.reservation.at_us
        return window

    def _first_reservation(self, position: int) -> Reservation | None:
        """The first reservation in a row's pool."""
        if self._context.policy.backfill is Backfill.EASY:
            return None if (head := self._head(position)) is None else head.reserve()
        return next((one for other, one in self._reservations if self._pools[other] == self._pools[position]), None)

    def _ends(self) -> PlannedEnds:
        """Planned ends of all running sessions, with this pass's placements and evictions."""
        before = self._context.snapshot.running
        if isinstance(before, tuple) and len(before) == len(self._running) and not self.evictions:
            return self._context.cache.ends(before)
        return PlannedEnds(self._running)

    def _outlasts(self, position: int) -> bool:
        """Whether it may still run when the head is to start. Sessions in a booking use what is kept for it alone."""
        if self._context.booking_of(self._queue[position]) is not None:
            return False
        return bool(self._context.now_us + self._planned_us[position] > self._head_us[self._pools[position]])

    def _outlast(self, positions: IntArray) -> npt.NDArray[np.bool_]:
        """[positions] whether each row may still run when the head is to start."""
        planned_us, head_us = self._planned_us[positions], self._head_us[self._pools[positions]]
        return np.asarray(self._context.now_us + planned_us > head_us, dtype=np.bool_)

    def _behind_head(self, waiting: IntArray, names: Sequence[SessionId]) -> list[Verdict]:
        """The first row of each pool that waits for room has a verdict of its own."""
        found: list[Verdict] = []
        behind: dict[int, Verdict] = {}
        for position, name in zip(waiting.tolist(), names, strict=True):
            pool = int(self._pools[position])
            verdict = self._skipped.get(name) or behind.get(pool) or self._verdict(position)
            if name not in self._skipped and pool not in behind:
                behind[pool] = Verdict(reason=Reason.BEHIND_HEAD, evidence=Evidence(blocked_by=(name,)))
            found.append(verdict)
        return found

    def _verdict(self, position: int) -> Verdict:
        row, kind = self._queue[position], self._kinds[position]
        # Capacity only shrinks during a pass: what did not fit when it was tried does not fit now.
        is_full = row.cluster_size == 1 and self._closed[kind] == TO_ALL
        kernels = () if is_full else self._placer.place(row)
        reservation = self._first_reservation(position)
        if len(kernels) < row.cluster_size and self._calendar:
            unbooked = self._placer.place(row, as_if_unbooked=True)
            if len(unbooked) >= row.cluster_size and (booked := self._calendar.verdict(row, unbooked)) is not None:
                return booked
        if len(kernels) < row.cluster_size or reservation is None:
            if self._calendar:
                return shortage(row, self._capacity, fits_kernels=len(kernels))
            return kind_shortage(row, self._capacity, kind=int(kind), queue=self._queue, fits_kernels=len(kernels))
        evidence = Evidence(blocked_by=(reservation.session_id,), until_us=reservation.at_us)
        return Verdict(reason=Reason.RESERVED, evidence=evidence)
