"""Conservative backfill: every waiting session gets a reservation, and later ones may delay none of them.

A reservation table holds, per node, a usage profile: the budget units held as a step function of future time.

Source: Mu'alem & Feitelson, Utilization, predictability, workloads, and user runtime estimates, IEEE TPDS 2001; here on
exact devices instead of counts.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import accumulate
from operator import itemgetter
from typing import Final

from msgspec import Struct

from aliquot.core.allocation.occupancy import larger_of, occupancy_on
from aliquot.core.model.plan import KernelPlacement
from aliquot.core.model.queue import Kind, kind_of
from aliquot.core.model.snapshot import PendingRow, RunningRow
from aliquot.core.scheduler.backfill import PassContext
from aliquot.core.scheduler.booking_calendar import NEVER_US
from aliquot.core.scheduler.cache import NOTHING, FreeMilli
from aliquot.core.scheduler.expected_ends import expected_end_us
from aliquot.core.scheduler.free_capacity import FreeCapacity
from aliquot_schema.ids import BookingId, DeviceId, NodeId

Held = Mapping[DeviceId, int]

Alike = tuple[Kind, int | None, bool, BookingId | None]
"""Kind, time limit, whether it is preemptible, booking: all that decides when and where a row can be placed, with its
planned duration."""


class UsageProfile:
    """Usage of one node as a step function of future time. Mappings are replaced, never changed in place."""

    def __init__(self, now_us: int, held: Held) -> None:
        self._times = [now_us]
        self._held = [held]
        """Held from each time to the next."""
        self._peaks: dict[tuple[int, int], Held] = {}

    def peak(self, from_us: int, until_us: int) -> Held:
        """Per device, the most that is held at any time in [from_us, until_us)."""
        first = bisect_right(self._times, from_us) - 1
        end = max(bisect_left(self._times, until_us), first + 1)
        if end == first + 1:
            return self._held[first]
        if (first, end) not in self._peaks:
            self._peaks[first, end] = reduce(larger_of, self._held[first:end])
        return self._peaks[first, end]

    def change(
        self, amounts: Sequence[Held], *, from_us: int, until_us: int, sign: int
    ) -> Iterator[tuple[int, Held, Held]]:
        """Add (`sign` 1) or remove (-1) amounts in [from_us, until_us); yields (time, before, after) per step."""
        self._peaks.clear()
        first, end = self._cut(from_us), self._cut(until_us) if until_us < NEVER_US else len(self._times)
        changed = []
        for step in range(first, end):
            before = self._held[step]
            after = dict(before)
            for held in amounts:
                for device_id, amount in held.items():
                    after[device_id] = max(after.get(device_id, 0) + sign * amount, 0)
            self._held[step] = after
            changed.append((self._times[step], before, after))
        return iter(changed)

    def _cut(self, at_us: int) -> int:
        """The step that begins at a time; inserted if missing."""
        step = bisect_left(self._times, at_us)
        if step == len(self._times) or self._times[step] != at_us:
            self._times.insert(step, at_us)
            self._held.insert(step, self._held[step - 1])
        return step


class TimeSlot(Struct, frozen=True, kw_only=True):
    """A time from which a row fits for its planned duration, and its devices then."""

    at_us: int
    kernels: tuple[KernelPlacement, ...]


class ReservationTable:
    """What is held at every future time if sessions end as expected and start as reserved."""

    def __init__(self, context: PassContext, *, capacity: FreeCapacity, running: Iterable[RunningRow]) -> None:
        self._context = context
        self._agent_index: Final = capacity.agent_index
        leaves = context.temporary is not None and context.temporary.any_leaves
        self._kind_decides: Final = not context.calendar and not leaves
        """Whether rows of one kind can be placed alike at all times."""
        self._counting: Final = FreeMilli(capacity.agent_index)
        self._failed: defaultdict[Alike, list[tuple[int, int]]] = defaultdict(list)
        """(planned duration, time): a row of this kind, as long or longer, does not fit before that time."""
        self._profiles = {node_id: UsageProfile(context.now_us, used) for node_id, used in capacity.used.items()}
        gains: defaultdict[int, int] = defaultdict(int)
        for ends_us, kernel in sorted(self._expected_ends(running), key=itemgetter(0)):
            gains[ends_us] += self._change(kernel.node_id, [kernel], from_us=ends_us, until_us=NEVER_US, sign=-1)[0][1]
        for ends_us in context.calendar.ends_us() if context.calendar is not None else ():
            gains[ends_us] += 0
        self._times = [context.now_us, *sorted(gains)]
        """Times at which a running or reserved session is expected to end, a reserved one starts, or a booking ends."""
        gained = accumulate((gains[at_us] for at_us in self._times[1:]), initial=capacity.free_milli())
        self._free = list(gained)
        """Accelerators free in total from each time on, in milli; rows that need more are not tried."""

    def first(self, row: PendingRow, *, planned_us: int, milli: int) -> TimeSlot | None:
        """The earliest time at which a row fits; None if it never does.

        Args:
            milli: accelerators that the row takes at least.
        """
        for step in range(self._first_step(row, planned_us), len(self._times)):
            kernels = self._fits(row, step, planned_us=planned_us, milli=milli)
            if kernels is not None:
                self._failed[self._alike(row)].append((planned_us, self._times[step]))
                return TimeSlot(at_us=self._times[step], kernels=kernels)
        self._failed[self._alike(row)].append((planned_us, NEVER_US))
        return None

    def now(self, row: PendingRow, *, planned_us: int, milli: int) -> TimeSlot | None:
        """As `first`, for a start now; None if that would delay a reservation."""
        kernels = None
        if self._first_step(row, planned_us) == 0:
            kernels = self._fits(row, 0, planned_us=planned_us, milli=milli)
        if kernels is None:
            self._failed[self._alike(row)].append((planned_us, self._context.now_us + 1))
            return None
        return TimeSlot(at_us=self._context.now_us, kernels=kernels)

    def book(self, slot: TimeSlot, *, planned_us: int) -> None:
        """Enter a reservation or a start into the table."""
        until_us = slot.at_us + planned_us
        first, last = self._cut(slot.at_us), self._cut(until_us)
        by_node: defaultdict[NodeId, list[KernelPlacement]] = defaultdict(list)
        for kernel in slot.kernels:
            by_node[kernel.node_id].append(kernel)
        for node_id, kernels in by_node.items():
            changes = self._change(node_id, kernels, from_us=slot.at_us, until_us=until_us, sign=1)
            begins = [at_us for at_us, _ in changes]
            for step in range(first, last):
                self._free[step] += changes[bisect_right(begins, self._times[step]) - 1][1]

    def _expected_ends(self, running: Iterable[RunningRow]) -> Iterator[tuple[int, KernelPlacement]]:
        for row in running:
            at_us = expected_end_us(row, now_us=self._context.now_us)
            for kernel in row.kernels:
                yield at_us, kernel

    def _change(
        self, node_id: NodeId, kernels: Sequence[KernelPlacement], *, from_us: int, until_us: int, sign: int
    ) -> list[tuple[int, int]]:
        """Add or remove the usage of kernels on a node; returns (time, milli that become free) of each changed step."""
        agents = self._agent_index.by_id
        specs = [
            occupancy_on((kernel.spec,), agents[kernel.agent_id].layout.devices if kernel.agent_id in agents else {})
            for kernel in kernels
        ]
        profile = self._profiles.setdefault(node_id, UsageProfile(self._context.now_us, NOTHING))
        return [
            (at_us, self._left_on(node_id, after) - self._left_on(node_id, before))
            for at_us, before, after in profile.change(specs, from_us=from_us, until_us=until_us, sign=sign)
        ]

    def _left_on(self, node_id: NodeId, used: Mapping[DeviceId, int]) -> int:
        return self._counting.on(node_id, used) if node_id in self._agent_index.open_on else 0

    def _alike(self, row: PendingRow) -> Alike:
        if self._kind_decides:
            return kind_of(row), None, False, None
        return kind_of(row), row.limit_ms, row.is_preemptible, row.booking

    def _first_step(self, row: PendingRow, planned_us: int) -> int:
        """The first step worth trying: rows of this kind, no longer than this one, did not fit before it."""
        floors = [at_us for known_us, at_us in self._failed.get(self._alike(row), ()) if known_us <= planned_us]
        return bisect_left(self._times, max(floors)) if floors else 0

    def _cut(self, at_us: int) -> int:
        """The step that begins at a time; inserted if missing."""
        step = bisect_left(self._times, at_us)
        if step == len(self._times) or self._times[step] != at_us:
            self._times.insert(step, at_us)
            self._free.insert(step, self._free[step - 1])
        return step

    def _fits(self, row: PendingRow, step: int, *, planned_us: int, milli: int) -> tuple[KernelPlacement, ...] | None:
        end = max(bisect_left(self._times, self._times[step] + planned_us), step + 1)
        if milli > min(self._free[step:end]):
            return None
        from_us = self._times[step]
        capacity = self._context.free_capacity(
            {node_id: profile.peak(from_us, from_us + planned_us) for node_id, profile in self._profiles.items()}
        )
        kernels = self._context.placer(capacity, at_us=from_us).place(self._context.row_at(row, from_us))
        return kernels if len(kernels) == row.cluster_size else None
