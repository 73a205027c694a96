"""Conservative backfill: everybody who waits is promised a time and devices, and nobody may delay any of them.

Source: Mu'alem & Feitelson, Utilization, predictability, workloads, and user runtime estimates, IEEE TPDS 2001; here on
exact devices instead of counts.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter
from typing import Final

from aliquot.core.allocation.occupancy import occupancy_on
from aliquot.core.backfill import Scene
from aliquot.core.course import NEVER_US, Course
from aliquot.core.free_milli import NOTHING, FreeMilli
from aliquot.core.plan import KernelPlacement
from aliquot.core.queue import Kind, kind_of
from aliquot.core.room import Room
from aliquot.core.snapshot import PendingRow, RunningRow
from aliquot_schema.ids import DeviceId, NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A time at which a row fits for as long as its guard, and the devices that it gets then."""

    at_us: int
    kernels: tuple[KernelPlacement, ...]


class Timetable:
    """What will be held at every time from now on, if everybody keeps to his guard and starts as promised."""

    def __init__(self, scene: Scene, *, room: Room, running: Iterable[RunningRow]) -> None:
        self._scene = scene
        self._roster: Final = room.roster
        self._counting: Final = FreeMilli(room.roster)
        self._failed: defaultdict[Kind, list[tuple[int, int]]] = defaultdict(list)
        """Guard and time: so long a row of this kind fits nowhere before then. What is booked later only takes room."""
        self._courses = {node_id: Course(scene.now_us, used) for node_id, used in room.used.items()}
        gains: defaultdict[int, int] = defaultdict(int)
        for ends_us, kernel in sorted(self._endings(running), key=itemgetter(0)):
            gains[ends_us] += self._change(kernel.node_id, [kernel], from_us=ends_us, until_us=NEVER_US, sign=-1)[0][1]
        self._times = [scene.now_us, *sorted(gains)]
        """When something ends, or what was booked begins or ends."""
        gained = accumulate((gains[at_us] for at_us in self._times[1:]), initial=room.free_milli())
        self._free = list(gained)
        """What is left of accelerators in sum from each of the times on; whoever needs more need not be tried."""

    def first(self, row: PendingRow, *, guard_us: int, milli: int) -> Slot | None:
        """The first time at which it fits; None when it never does.

        Args:
            milli: what it takes of accelerators at least.
        """
        for step in range(self._first_step(row, guard_us), len(self._times)):
            kernels = self._fits(row, step, guard_us=guard_us, milli=milli)
            if kernels is not None:
                self._failed[kind_of(row)].append((guard_us, self._times[step]))
                return Slot(at_us=self._times[step], kernels=kernels)
        self._failed[kind_of(row)].append((guard_us, NEVER_US))
        return None

    def now(self, row: PendingRow, *, guard_us: int, milli: int) -> Slot | None:
        """As `first`, where only the present counts; None when it would take what somebody is promised."""
        kernels = None
        if self._first_step(row, guard_us) == 0:
            kernels = self._fits(row, 0, guard_us=guard_us, milli=milli)
        if kernels is None:
            self._failed[kind_of(row)].append((guard_us, self._scene.now_us + 1))
            return None
        return Slot(at_us=self._scene.now_us, kernels=kernels)

    def book(self, slot: Slot, *, guard_us: int) -> None:
        """Count a row as holding its devices from its time on."""
        until_us = slot.at_us + guard_us
        first, last = self._cut(slot.at_us), self._cut(until_us)
        by_node: defaultdict[NodeId, list[KernelPlacement]] = defaultdict(list)
        for kernel in slot.kernels:
            by_node[kernel.node_id].append(kernel)
        for node_id, kernels in by_node.items():
            changes = self._change(node_id, kernels, from_us=slot.at_us, until_us=until_us, sign=1)
            begins = [at_us for at_us, _ in changes]
            for step in range(first, last):
                self._free[step] += changes[bisect_right(begins, self._times[step]) - 1][1]

    def _endings(self, running: Iterable[RunningRow]) -> Iterator[tuple[int, KernelPlacement]]:
        """Whoever has outstayed his guard may end at any moment after this one."""
        for row in running:
            for kernel in row.kernels:
                yield max(row.ends_us, self._scene.now_us + 1), kernel

    def _change(
        self, node_id: NodeId, kernels: Sequence[KernelPlacement], *, from_us: int, until_us: int, sign: int
    ) -> list[tuple[int, int]]:
        """Take what kernels have from a node, or give it back; returns since when how much more is left there."""
        agents = self._roster.by_id
        specs = [
            occupancy_on((kernel.spec,), agents[kernel.agent_id].layout.devices if kernel.agent_id in agents else {})
            for kernel in kernels
        ]
        course = self._courses.setdefault(node_id, Course(self._scene.now_us, NOTHING))
        return [
            (at_us, self._left_on(node_id, after) - self._left_on(node_id, before))
            for at_us, before, after in course.change(specs, from_us=from_us, until_us=until_us, sign=sign)
        ]

    def _left_on(self, node_id: NodeId, used: Mapping[DeviceId, int]) -> int:
        return self._counting.on(node_id, used) if node_id in self._roster.open_on else 0

    def _first_step(self, row: PendingRow, guard_us: int) -> int:
        """Before it, no row of its kind has found room for so long."""
        floors = [at_us for known_us, at_us in self._failed.get(kind_of(row), ()) if known_us <= guard_us]
        return bisect_left(self._times, max(floors)) if floors else 0

    def _cut(self, at_us: int) -> int:
        """The step that begins at a time, made if there is none."""
        step = bisect_left(self._times, at_us)
        if step == len(self._times) or self._times[step] != at_us:
            self._times.insert(step, at_us)
            self._free.insert(step, self._free[step - 1])
        return step

    def _fits(self, row: PendingRow, step: int, *, guard_us: int, milli: int) -> tuple[KernelPlacement, ...] | None:
        end = max(bisect_left(self._times, self._times[step] + guard_us), step + 1)
        if milli > min(self._free[step:end]):
            return None
        from_us = self._times[step]
        room = self._scene.room(
            {node_id: course.most(from_us, from_us + guard_us) for node_id, course in self._courses.items()}
        )
        kernels = self._scene.placer(room).place(row)
        return kernels if len(kernels) == row.cluster_size else None
