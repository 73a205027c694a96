"""Conservative backfill: everybody who waits is promised a time and devices, and nobody may delay any of them.

Source: Mu'alem & Feitelson, Utilization, predictability, workloads, and user runtime estimates, IEEE TPDS 2001; here on
exact devices instead of counts.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from aliquot.core.allocation.occupancy import added, occupancy_on
from aliquot.core.backfill import Scene, most, without
from aliquot.core.plan import KernelPlacement
from aliquot.core.room import Room
from aliquot.core.snapshot import PendingRow, RunningRow
from aliquot_schema.ids import DeviceId, NodeId, SessionId

Used = Mapping[NodeId, Mapping[DeviceId, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A time at which a row fits for as long as its guard, and the devices that it gets then."""

    at_us: int
    kernels: tuple[KernelPlacement, ...]


class Timetable:
    """What will be held at every time from now on, if everybody keeps to his guard and starts as promised."""

    def __init__(self, scene: Scene, *, room: Room, running: Iterable[RunningRow]) -> None:
        self._scene = scene
        self._layouts: Final = {agent.id: agent.layout for agent in scene.snapshot.agents}
        # Whoever has outstayed his guard may end at any moment after this one.
        ending = sorted(((max(row.ends_us, scene.now_us + 1), row) for row in running), key=_by_end)
        rows = [row for _, row in ending]
        self._times = [scene.now_us]
        self._used: list[Used] = [dict(room.used)]
        """What is held from each of the times to the next."""
        for count, (ends_us, _) in enumerate(ending, start=1):
            if count == len(ending) or ending[count][0] > ends_us:
                self._times.append(ends_us)
                self._used.append(without(rows[:count], room=room))

    def fits_now(self, row: PendingRow, *, guard_us: int) -> tuple[KernelPlacement, ...] | None:
        """The devices that a row may have from now on; None when it would take what somebody is promised."""
        return self._fits(row, 0, guard_us=guard_us)

    def first(self, row: PendingRow, *, guard_us: int) -> Slot | None:
        """The first time at which it fits; None when it never does."""
        for step, at_us in enumerate(self._times):
            kernels = self._fits(row, step, guard_us=guard_us)
            if kernels is not None:
                return Slot(at_us=at_us, kernels=kernels)
        return None

    def book(self, slot: Slot, *, guard_us: int) -> None:
        """Count a row as holding its devices from its time on."""
        first, last = self._cut(slot.at_us), self._cut(slot.at_us + guard_us)
        for step in range(first, last):
            used = dict(self._used[step])
            for kernel in slot.kernels:
                more = occupancy_on((kernel.spec,), self._layouts[kernel.agent_id].devices)
                used[kernel.node_id] = added(used.get(kernel.node_id, {}), more)
            self._used[step] = used

    def _cut(self, at_us: int) -> int:
        """The step that begins at a time, made if there is none."""
        step = bisect_left(self._times, at_us)
        if step == len(self._times) or self._times[step] != at_us:
            self._times.insert(step, at_us)
            self._used.insert(step, self._used[step - 1])
        return step

    def _fits(self, row: PendingRow, step: int, *, guard_us: int) -> tuple[KernelPlacement, ...] | None:
        end = max(bisect_left(self._times, self._times[step] + guard_us), step + 1)
        room = self._scene.room(_largest(self._used[step:end]))
        kernels = self._scene.placer(room).place(row)
        return kernels if len(kernels) == row.cluster_size else None


def _by_end(ending: tuple[int, RunningRow]) -> tuple[int, SessionId]:
    return ending[0], ending[1].session_id


def _largest(steps: list[Used]) -> Used:
    """On every device, the most that is held in any of these steps."""
    found: dict[NodeId, Mapping[DeviceId, int]] = dict(steps[0])
    for used in steps[1:]:
        for node_id, held in used.items():
            known = found.get(node_id)
            if known is not held:
                found[node_id] = held if known is None else most(known, held)
    return found
