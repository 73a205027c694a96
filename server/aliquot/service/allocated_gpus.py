"""What a session was given of GPUs, device by device, whichever slot it asked for."""

from collections import Counter
from collections.abc import Iterable

from aliquot.core.allocation.occupancy import budget_cost
from aliquot.service.state import State
from aliquot_schema.gpu_views import AllocatedGpuView
from aliquot_schema.ids import AgentId, DeviceId, LeaseId
from aliquot_schema.leases import Lease
from aliquot_schema.sessions import Session
from aliquot_schema.slots import MILLI, is_accelerator


def allocated_gpus(state: State, session: Session) -> tuple[AllocatedGpuView, ...]:
    """Of its newest attempt, in the order of its ranks, given back or not; of work outside, what it holds now."""
    found = (state.leases.get(LeaseId(kernel.id)) for kernel in state.kernels_in(session))
    return of_leases(state, [*(lease for lease in found if lease is not None), *state.outside.of(session.id)])


def of_leases(state: State, leases: Iterable[Lease]) -> tuple[AllocatedGpuView, ...]:
    """What leases give of GPUs; a device that left its agent since is not shown."""
    used: Counter[tuple[AgentId, DeviceId]] = Counter()
    for lease in leases:
        layout = state.layouts.get(lease.agent_id)
        for slot, amounts in lease.spec.items():
            if layout is None or not is_accelerator(slot):
                continue
            for device_id, amount in amounts.items():
                used[lease.agent_id, device_id] += amount * budget_cost(slot, device=layout.devices.get(device_id))
    return tuple(view for place, units in used.items() if (view := _view(state, place, units)) is not None)


def _view(state: State, place: tuple[AgentId, DeviceId], units: int) -> AllocatedGpuView | None:
    agent_id, device_id = place
    device = state.layouts[agent_id].devices.get(device_id)
    if device is None:
        return None
    return AllocatedGpuView(
        node_id=state.node_of(agent_id),
        gpu_id=device_id,
        share=units * MILLI // device.budget / MILLI,
        memory_gb=round(device.memory_bytes * units / device.budget / 1e9, 3),
    )
