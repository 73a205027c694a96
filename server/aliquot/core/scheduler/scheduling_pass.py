"""Scheduling pass: places eligible sessions in order, with backfill while the head of the queue waits.

Soft constraints (preferred labels and models) are tried before hard ones. A session that does not fit gets a verdict
with its evidence.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from operator import attrgetter
from typing import Final

import numpy as np
import numpy.typing as npt

from aliquot.core.allocation.options import is_of_model
from aliquot.core.model.agent_index import AgentIndex
from aliquot.core.model.plan import Eviction, KernelPlacement, Placement, Reservation
from aliquot.core.model.queue import KIND, LEAST_MILLI, IntArray, Queue
from aliquot.core.model.snapshot import PendingRow, Request, RunningRow, Where, accelerators_first, held_milli
from aliquot.core.quota import QuotaBook
from aliquot.core.scheduler.backfill import BackfillWindow, PassContext, reserve
from aliquot.core.scheduler.conservative_backfill import ReservationTable, TimeSlot
from aliquot.core.scheduler.expected_ends import PlannedEnds, planned_durations_ms
from aliquot.core.scheduler.free_capacity import FreeCapacity
from aliquot.core.scheduler.placer import Placer
from aliquot.core.scheduler.preemption import PreemptionClaims
from aliquot_schema.ids import SessionId, task_id
from aliquot_schema.policies import Backfill
from aliquot_schema.reasons import Evidence, Reason, Verdict
from aliquot_schema.resources.slots import format_amount

NAMED_MAX: Final = 16
"""Sessions named as holders."""
_SESSION_ID: Final = attrgetter("session_id")


def preferred(where: Where, *, agent_index: AgentIndex) -> Iterator[Where]:
    """Soft constraints to try, the strictest first: preferred labels and models, labels alone, models alone.

    Each of them keeps the hard constraints.
    """
    if not (where.preferred_labels or where.preferred_models):
        return
    labels = tuple(sorted({**dict(where.preferred_labels), **dict(where.labels)}.items()))
    models = _models(where, agent_index)
    for wish in dict.fromkeys(((labels, models), (labels, where.models), (where.labels, models))):
        if wish != (where.labels, where.models):
            yield replace(where, labels=wish[0], models=wish[1])


def _models(where: Where, agent_index: AgentIndex) -> tuple[str, ...]:
    """Models that are both required and preferred, by name: one list of patterns cannot require two lists together."""
    if not (where.models and where.preferred_models):
        return where.preferred_models or where.models
    preferred_models = (model for model in agent_index.models if is_of_model(model, where.preferred_models))
    return tuple(model for model in preferred_models if is_of_model(model, where.models)) or where.models


def shortage(row: PendingRow, capacity: FreeCapacity, *, fits_kernels: int) -> Verdict:
    """Why a row does not fit: part of its gang does, a slot is short on every agent, or free capacity is fragmented."""
    blocked_by = capacity.holders.oldest([slot for slot, _ in row.request], capacity.open_agents(row), most=NAMED_MAX)
    if fits_kernels:
        evidence = Evidence(fits_kernels=fits_kernels, blocked_by=blocked_by)
        return Verdict(reason=Reason.GANG_INCOMPLETE, evidence=evidence)
    for slot, amount in accelerators_first(row.request):
        most = capacity.most_free(slot, row)
        if most < amount:
            evidence = Evidence(
                slot=slot,
                requested=format_amount(slot, amount),
                available=format_amount(slot, most),
                blocked_by=blocked_by,
            )
            return Verdict(reason=Reason.INSUFFICIENT, evidence=evidence)
    return Verdict(reason=Reason.FRAGMENTED, evidence=Evidence(blocked_by=blocked_by))


class SchedulingPass:
    """One pass over the queue. Rows of one kind are placed alike: if one does not fit, the others are not tried."""

    def __init__(self, queue: Queue, context: PassContext) -> None:
        self._queue = queue
        self._context = context
        self._kinds = queue.column(KIND)
        self._planned_us = planned_durations_ms(queue, context.policy) * 1000
        self._capacity = FreeCapacity(context.snapshot, context.policy, cache=context.cache)
        self._free_milli = self._capacity.free_milli()
        self._least_milli = queue.column(LEAST_MILLI)
        self._running: list[RunningRow] = list(context.snapshot.running)
        self._is_left = np.ones(len(queue), dtype=np.bool_)
        """[rows] whether a row, or a task of it, still waits."""
        self._blocked: list[PendingRow] = []
        """The first row of each kind that did not fit, in order; the first that can get a reservation is the head."""
        self._window: BackfillWindow | None = None
        self._quotas = QuotaBook(context.snapshot, policy=context.policy, now_us=context.now_us)
        self._claims = PreemptionClaims(context)
        self._skipped: dict[SessionId, Verdict] = {}
        """Verdicts of rows that wait without blocking later ones."""
        self._refused: list[int] = []
        """Positions of rows refused under a quota."""
        self._tasks_started: Counter[SessionId] = Counter()
        self.placements: list[Placement] = []
        self.reservations: list[Reservation] = []
        """Of conservative backfill, in queue order."""

    def place_all(self, line: IntArray) -> None:
        """Place all rows that may start.

        Args:
            line: positions in the queue, the next one first.
        """
        if self._context.policy.backfill is Backfill.CONSERVATIVE:
            self._place_all_conservative(line)
            return
        rest = line
        while len(rest):
            position = int(rest[0])
            row = self._queue[position]
            refusal = self._quotas.refusal(row)
            if refusal is not None:
                self._skipped[row.session_id] = refusal
                self._refused.append(position)
                rest = rest[1:]
                continue
            kernels = self._place(position, row)
            if len(kernels) < row.cluster_size:
                if row.is_immediate:
                    rest = rest[1:]
                    continue
                if not self._blocked and self._claim(position, row):
                    rest = rest[1:]
                    continue
                self._blocked.append(row)
                if self._context.policy.backfill is Backfill.NONE:
                    return
                rest = rest[self._kinds[rest] != self._kinds[position]]
            elif self._start(position, row, kernels):
                rest = rest if self._tasks_started[row.session_id] in range(1, row.tasks_startable) else rest[1:]
            else:
                rest = rest[(self._kinds[rest] != self._kinds[position]) | ~self._outlast(rest)]

    def reservation(self) -> Reservation | None:
        """The reservation of the head; None without one."""
        if self._context.policy.backfill is Backfill.CONSERVATIVE:
            return self.reservations[0] if self.reservations else None
        if self._window is None and self._context.policy.backfill is not Backfill.NONE:
            self._window = self._reserve()
        return self._window.reservation if self._window is not None else None

    def verdicts(self, line: IntArray) -> dict[SessionId, Verdict]:
        """Why each remaining row of the line waits, in its order."""
        self._refresh_refusals()
        waiting = line[self._is_left[line]]
        names = list(map(_SESSION_ID, map(self._queue.rows.__getitem__, waiting.tolist())))
        verdicts = self._behind_head if self._context.policy.backfill is Backfill.NONE else self._by_kind
        return dict(zip(names, verdicts(waiting, names), strict=True))

    def keep_cache(self) -> None:
        """Store placement scores for the next pass."""
        if "_placer" in self.__dict__:
            self._placer.keep()

    @property
    def skipped(self) -> Mapping[SessionId, Verdict]:
        """Verdicts of rows that wait without blocking later ones."""
        return self._skipped

    @property
    def evictions(self) -> tuple[Eviction, ...]:
        """Sessions to preempt."""
        return tuple(self._claims.evictions)

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

    def _by_kind(self, waiting: IntArray, names: Sequence[SessionId]) -> list[Verdict]:
        """Rows of one kind share a verdict, except skipped ones."""
        kinds, skipped = self._kinds[waiting], self._skipped
        judged = np.array([name not in skipped for name in names], dtype=np.bool_) if skipped else slice(None)
        _, firsts = np.unique(kinds[judged], return_index=True)
        leaders = waiting[judged][np.sort(firsts)].tolist()
        known = {int(self._kinds[position]): self._verdict(self._queue[position]) for position in leaders}
        if not skipped:
            return [known[kind] for kind in kinds.tolist()]
        return [skipped.get(name) or known[kind] for name, kind in zip(names, kinds.tolist(), strict=True)]

    @cached_property
    def _placer(self) -> Placer:
        return Placer(self._context.snapshot, self._context.policy, capacity=self._capacity, seed=self._context.seed)

    def _place(self, position: int, row: PendingRow) -> tuple[KernelPlacement, ...]:
        """Kernels that fit now; none if total free capacity is too small for all of them."""
        if self._least_milli[position] > self._free_milli:
            return ()
        for where in preferred(row.where, agent_index=self._capacity.agent_index):
            kernels = self._placer.place(replace(row, where=where))
            if len(kernels) == row.cluster_size:
                return kernels
        return self._placer.place(row)

    def _place_all_conservative(self, line: IntArray) -> None:
        """Conservative backfill: start rows that delay no reservation; reserve for up to `backfill_depth` others."""
        table = ReservationTable(self._context, capacity=self._capacity, running=self._running)
        rest = list(line)
        while rest:
            position = int(rest[0])
            row, planned_us = self._queue[position], max(int(self._planned_us[position]), 1)
            refusal = self._quotas.refusal(row)
            if refusal is not None:
                self._skipped[row.session_id] = refusal
                self._refused.append(position)
                rest = rest[1:]
                continue
            slot = self._slot(table, position)
            if row.is_immediate and (slot is None or slot.at_us > self._context.now_us):
                rest = rest[1:]
                continue
            if slot is None or slot.at_us > self._context.now_us:
                if not self._blocked and self._claim(position, row):
                    # There is no reservation yet, so the table can be rebuilt with the victims leaving.
                    table = ReservationTable(self._context, capacity=self._capacity, running=self._running)
                    rest = rest[1:]
                    continue
                self._blocked.append(row)
            if slot is None:
                rest = rest[1:]
                continue
            table.book(slot, planned_us=planned_us)
            if slot.at_us > self._context.now_us:
                reservation = Reservation(session_id=row.session_id, at_us=slot.at_us, kernels=slot.kernels)
                self.reservations.append(reservation)
                rest = rest[1:]
            else:
                self._grant(position, row, slot.kernels)
                rest = rest if self._tasks_started[row.session_id] in range(1, row.tasks_startable) else rest[1:]

    def _slot(self, table: ReservationTable, position: int) -> TimeSlot | None:
        """Start of a row, now or reserved; None if it does not fit now and gets no reservation."""
        row, planned_us = self._queue[position], max(int(self._planned_us[position]), 1)
        milli = int(self._least_milli[position])
        if len(self.reservations) < self._context.policy.backfill_depth and not row.is_immediate:
            return table.first(row, planned_us=planned_us, milli=milli)
        return table.now(row, planned_us=planned_us, milli=milli)

    def _claim(self, position: int, row: PendingRow) -> bool:
        """Preempt for a row if it may; the devices it is to get are held for it."""
        claim = self._claims.claim(row, capacity=self._capacity, running=self._running, quotas=self._quotas)
        if claim is None:
            return False
        ends_us = claim.at_us + int(self._planned_us[position])
        self._take(row.session_id, claim.kernels, ends_us=ends_us)
        evidence = Evidence(blocked_by=claim.leaving, until_us=claim.at_us)
        self._skipped[row.session_id] = Verdict(reason=Reason.MAKING_ROOM, evidence=evidence)
        self._quotas.take(row)
        return True

    def _take(self, name: SessionId, kernels: Sequence[KernelPlacement], *, ends_us: int) -> None:
        """Count kernels as held until `ends_us`."""
        self._placer.take(name, kernels)
        milli = held_milli(kernels, agents=self._capacity.agent_index.by_id)
        self._running.append(RunningRow(session_id=name, ends_us=ends_us, kernels=tuple(kernels), milli=milli))
        self._free_milli = self._capacity.free_milli()

    def _start(self, position: int, row: PendingRow, kernels: tuple[KernelPlacement, ...]) -> bool:
        """Start a row that fits now, unless that would delay the head."""
        window = self._window = self._window or self._reserve()
        outlasts = window is not None and bool(self._outlast(np.array([position]))[0])
        if window is not None and outlasts:
            kernels = window.place(row, kernels)
            if len(kernels) < row.cluster_size:
                return False
        self._grant(position, row, kernels)
        if window is not None:
            window.take(row, kernels, outlasts=outlasts)
        return True

    def _grant(self, position: int, row: PendingRow, kernels: tuple[KernelPlacement, ...]) -> None:
        """Count the next task of a row as started."""
        index = None if row.tasks is None else row.tasks.nth(self._tasks_started[row.session_id])
        name = row.session_id if index is None else task_id(row.session_id, index=index)
        self._take(name, kernels, ends_us=self._context.now_us + int(self._planned_us[position]))
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
            self._skipped[row.session_id] = Verdict(reason=Reason.ARRAY_LIMIT)

    def _reserve(self) -> BackfillWindow | None:
        """Reserve for the first blocked row that can get a reservation; others wait for holders without a known end."""
        while self._blocked:
            head, ends = self._blocked.pop(0), self._ends()
            window = reserve(head, capacity=self._capacity, ends=ends, context=self._context, placer=self._placer)
            if window is not None:
                return window
        return None

    def _ends(self) -> PlannedEnds:
        """Planned ends of all running sessions, with this pass's placements and evictions."""
        before = self._context.snapshot.running
        if isinstance(before, tuple) and len(before) == len(self._running) and not self._claims.evictions:
            return self._context.cache.ends(before)
        return PlannedEnds(self._running)

    def _outlast(self, positions: IntArray) -> npt.NDArray[np.bool_]:
        """[positions] whether each row may still run when the head is to start."""
        at_us = self._window.reservation.at_us if self._window is not None else None
        if at_us is None:
            return np.ones(len(positions), dtype=np.bool_)
        return self._context.now_us + self._planned_us[positions] > at_us

    def _behind_head(self, waiting: IntArray, names: Sequence[SessionId]) -> list[Verdict]:
        head = next((place for place, name in enumerate(names) if name not in self._skipped), len(names))
        found = [self._skipped[name] for name in names[:head]]
        if head < len(names):
            found.append(self._verdict(self._queue[int(waiting[head])]))
            behind = Verdict(reason=Reason.BEHIND_HEAD, evidence=Evidence(blocked_by=(names[head],)))
            found += [self._skipped.get(name, behind) for name in names[head + 1 :]]
        return found

    def _verdict(self, row: PendingRow) -> Verdict:
        kernels = self._placer.place(row)
        reservation = self.reservation()
        if len(kernels) < row.cluster_size or reservation is None:
            return shortage(row, self._capacity, fits_kernels=len(kernels))
        evidence = Evidence(blocked_by=(reservation.session_id,), until_us=reservation.at_us)
        return Verdict(reason=Reason.RESERVED, evidence=evidence)
