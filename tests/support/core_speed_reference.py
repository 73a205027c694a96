"""The long way round: a context in which nothing of a pass is taken at a shortcut."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from aliquot.core.allocation import plain
from aliquot.core.allocation.layout import DeviceLayout, SlotLayout
from aliquot.core.allocation.occupancy import Occupancy, added, occupancy_on
from aliquot.core.free_milli import FreeMilli
from aliquot.core.placement.devices import Columns
from aliquot.core.room import Room
from aliquot.core.snapshot import AgentRow, PendingRow
from aliquot_schema.devices import ResourceSpec
from aliquot_schema.ids import DeviceId, NodeId, SlotName

try_kernel = Room.try_kernel


@contextmanager
def long_way() -> Iterator[None]:
    """Within it, the general way decides, and everything that is known by what has changed is counted anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "accelerators", _nothing)
        patch.setattr(plain, "host", _nothing)
        patch.setattr(Columns, "host_change", _nothing)
        patch.setattr(SlotLayout, "free_sum", _free_sum)
        patch.setattr(DeviceLayout, "held_with", _held_with)
        patch.setattr(DeviceLayout, "budget_sum", _budget_sum)
        patch.setattr(FreeMilli, "taken", _taken)
        patch.setattr(Room, "try_kernel", _try_kernel)
        yield


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _free_sum(layout: SlotLayout, used: Occupancy) -> int:
    return sum(layout.free(used))


def _held_with(layout: DeviceLayout, used: Occupancy, spec: ResourceSpec) -> dict[DeviceId, int]:
    return added(used, occupancy_on((spec,), layout.devices))


def _budget_sum(layout: DeviceLayout, slot: SlotName, amounts: Mapping[DeviceId, int]) -> int:
    return sum(occupancy_on(({slot: amounts},), layout.devices).values())


def _taken(free: FreeMilli, node_id: NodeId, _spec: ResourceSpec, *, before: Occupancy, now: Occupancy) -> int:
    return free.on(node_id, before) - free.on(node_id, now)


def _try_kernel(
    room: Room, row: PendingRow, agent: AgentRow, used: Occupancy, *, liked: DeviceId | None = None
) -> ResourceSpec | None:
    """A device that is liked is the only one that is left."""
    if liked is None:
        return try_kernel(room, row, agent, used)
    rivals = {
        device.id: device.budget
        for device in agent.layout.devices.values()
        if device.id != liked and any("." in slot for slot in device.costs)
    }
    return try_kernel(room, row, agent, {**used, **rivals})
