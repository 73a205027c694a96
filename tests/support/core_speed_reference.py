"""The reference path: a context in which a pass takes no shortcuts."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from aliquot.core.allocation import accelerators
from aliquot.core.allocation.layout import DeviceLayout, SlotLayout
from aliquot.core.allocation.occupancy import Occupancy, added, occupancy_on
from aliquot.core.model.snapshot import AgentRow, PendingRow
from aliquot.core.placement.cluster_arrays import Columns
from aliquot.core.scheduler.cache import FreeMilli
from aliquot.core.scheduler.free_capacity import FreeCapacity
from aliquot.core.scheduler.holders import Holders
from aliquot.core.scheduler.scheduling_pass import OPEN, TO_LONG, SchedulingPass
from aliquot_schema.ids import DeviceId, NodeId, SessionId, SlotName
from aliquot_schema.resources.devices import ResourceSpec

try_kernel = FreeCapacity.try_kernel


@contextmanager
def without_shortcuts() -> Iterator[None]:
    """Within it, only the general path is used, and all that is tracked by changes is recounted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accelerators, "fast_accelerators", _nothing)
        patch.setattr(accelerators, "fast_host", _nothing)
        patch.setattr(Columns, "host_change", _nothing)
        patch.setattr(SlotLayout, "free_sum", _free_sum)
        patch.setattr(DeviceLayout, "held_with", _held_with)
        patch.setattr(DeviceLayout, "budget_sum", _budget_sum)
        patch.setattr(FreeMilli, "consumed", _consumed)
        patch.setattr(FreeCapacity, "try_kernel", _try_kernel)
        patch.setattr(FreeCapacity, "oldest_holders", _oldest_holders)
        patch.setattr(SchedulingPass, "_untried", _untried)
        yield


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _free_sum(layout: SlotLayout, used: Occupancy) -> int:
    return sum(layout.free(used))


def _held_with(layout: DeviceLayout, used: Occupancy, spec: ResourceSpec) -> dict[DeviceId, int]:
    return added(used, occupancy_on((spec,), layout.devices))


def _budget_sum(layout: DeviceLayout, slot: SlotName, amounts: Mapping[DeviceId, int]) -> int:
    return sum(occupancy_on(({slot: amounts},), layout.devices).values())


def _consumed(free: FreeMilli, node_id: NodeId, _spec: ResourceSpec, *, before: Occupancy, now: Occupancy) -> int:
    return free.on(node_id, before) - free.on(node_id, now)


def _try_kernel(
    room: FreeCapacity, row: PendingRow, agent: AgentRow, used: Occupancy, *, preferred: DeviceId | None = None
) -> ResourceSpec | None:
    """A preferred device is the only one left."""
    if preferred is None:
        return try_kernel(room, row, agent, used)
    rivals = {
        device.id: device.budget
        for device in agent.layout.devices.values()
        if device.id != preferred and any("." in slot for slot in device.costs)
    }
    return try_kernel(room, row, agent, {**used, **rivals})


def _oldest_holders(room: FreeCapacity, row: PendingRow, *, most: int) -> tuple[SessionId, ...]:
    before = room.cache.holders(room._held)
    holders = Holders(before, room._taken, agent_index=room.agent_index)
    return holders.oldest([slot for slot, _ in row.request], room.open_agents(row), most=most)


def _untried(run: SchedulingPass, line: Sequence[int]) -> Iterator[int]:
    """Row by row, without lookahead."""
    for position in map(int, line):
        state = run._closed[run._kinds[position]]
        if state == OPEN or (state == TO_LONG and not run._outlasts(position)):
            yield position
