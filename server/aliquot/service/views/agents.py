"""Agent and device views: read models of each device with its health, readings and holders."""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from typing import Final

from aliquot.core.allocation.layout import islands_of
from aliquot.core.allocation.occupancy import budget_cost, gpu_alloc_json, gpu_alloc_map
from aliquot.service.state.state import State
from aliquot.service.views.sessions import kernel_view
from aliquot.service.views.terms import moment, moment_or_none, pairs
from aliquot_schema.cluster.agents import Agent, is_label
from aliquot_schema.ids import DeviceId, SessionId, SlotName
from aliquot_schema.resources.devices import Device, DeviceHealth, DeviceReading, ResourceSpec
from aliquot_schema.resources.leases import Lease
from aliquot_schema.resources.slots import format_amount
from aliquot_schema.states import KernelState
from aliquot_schema.views.agents import (
    AgentView,
    CapabilitiesView,
    DeviceView,
    HolderView,
)
from aliquot_schema.views.sessions import slot_amounts

HOST_SLOTS: Final = frozenset({"cpu", "mem"})
SHARES: Final = ".shares"


def agent_view(state: State, agent: Agent) -> AgentView:
    """An agent with its devices and running kernels."""
    leases = sorted(state.leases_on(agent.node_id), key=lambda lease: lease.id)
    own = [lease for lease in leases if lease.agent_id == agent.id]
    return AgentView(
        id=agent.id,
        version=agent.version,
        node_id=agent.node_id,
        hostname=agent.hostname,
        state=agent.state,
        schedulable=agent.schedulable,
        capacity=slot_amounts(_texts(_capacity(agent))),
        occupied=slot_amounts(_texts(_occupied(agent, _specs_on(agent, leases)))),
        devices=device_views(state, agent),
        kernels=tuple(
            kernel_view(state, kernel)
            for lease in own
            if lease.kernel_id is not None and (kernel := state.kernels.get(lease.kernel_id)) is not None
            if kernel.state is not KernelState.EXITED
        ),
        gpu_alloc_map=alloc_map_text(state, agent),
        allocation_mode=agent.allocation_mode,
        scaling_factors=slot_amounts(sorted(agent.scaling_factor.items())),
        attributes=pairs({name: text for name, text in agent.attributes.items() if not is_label(name)}),
        capabilities=_capabilities(agent),
        software_version=agent.software_version,
        registered_at=moment(agent.registered_us),
        state_changed_at=moment(agent.state_changed_us),
        pool=agent.pool,
        labels=pairs(agent.all_labels),
        eviction=agent.eviction,
        draining=agent.draining,
        drained=agent.draining and not own,
        note=agent.note,
    )


def device_views(state: State, agent: Agent) -> tuple[DeviceView, ...]:
    """The devices of an agent, in its order."""
    leases = sorted(state.leases_on(agent.node_id), key=lambda lease: lease.id)
    holders = _holders(state, leases, {device.id: device for device in agent.devices})
    groups = _link_groups(agent)
    used, blocked = state.used.get(agent.node_id, {}), state.foreign_usage.blocked.get(agent.node_id, {})
    foreign = state.foreign_usage.users.get(agent.node_id, {})
    return tuple(
        device_view(
            device,
            used.get(device.id, 0),
            holders[device.id],
            state.readings.get((agent.id, device.id)),
            foreign_usage=device.id in blocked,
            foreign_users=foreign.get(device.id, ()),
            link_group=groups.get(device.id),
        )
        for device in agent.devices
    )


def alloc_map_text(state: State, agent: Agent) -> str:
    """See `AgentView.gpu_alloc_map`."""
    return gpu_alloc_json(gpu_alloc_map(_specs_on(agent, state.leases_on(agent.node_id)), agent.devices))


def _specs_on(agent: Agent, leases: Iterable[Lease]) -> list[ResourceSpec]:
    """What is held of an agent's devices: all that was granted on it, and what other agents of its node granted."""
    known = {device.id for device in agent.devices}
    return [lease.spec if lease.agent_id == agent.id else _part_of(lease.spec, known) for lease in leases]


def _part_of(spec: ResourceSpec, devices: Container[DeviceId]) -> ResourceSpec:
    parts = {slot: {name: held for name, held in amounts.items() if name in devices} for slot, amounts in spec.items()}
    return {slot: amounts for slot, amounts in parts.items() if amounts}


def device_view(
    device: Device,
    used: int,
    holders: Iterable[HolderView],
    reading: DeviceReading | None,
    *,
    foreign_usage: bool,
    foreign_users: tuple[str, ...],
    link_group: int | None,
) -> DeviceView:
    """One device. Amounts are shares for accelerators, cores or bytes for `cpu` and `mem`."""
    unit = budget_slot(device)
    return DeviceView(
        id=device.id,
        name=device.name,
        kind=device.kind,
        model=device.model,
        health=device.health,
        isolation=device.isolation,
        numa_node=device.numa_node,
        parent_id=device.parent,
        memory_bytes=device.memory_bytes,
        capacity=format_amount(unit, device.budget),
        used=format_amount(unit, used),
        free=format_amount(unit, max(0, device.budget - used)),
        holders=tuple(holders),
        utilization_pct=reading.utilization_pct if reading else None,
        memory_used_bytes=reading.memory_used_bytes if reading else None,
        temperature_c=reading.temperature_c if reading else None,
        power_w=reading.power_w if reading else None,
        foreign_usage=foreign_usage,
        foreign_users=foreign_users,
        linked_to=device.linked_to,
        link_group=link_group,
    )


def _link_groups(agent: Agent) -> Mapping[DeviceId, int | None]:
    """Number of each device's link group; devices without links are missing."""
    linked = {device.id for device in agent.devices if device.linked_to}
    if not linked:
        return {}
    reached = linked.union(*(device.linked_to for device in agent.devices))
    return islands_of([device for device in agent.devices if device.id in reached])


def budget_slot(device: Device) -> str:
    """The slot that formats the device's budget units."""
    return device.kind if device.kind in HOST_SLOTS else f"{device.kind}{SHARES}"


def _capabilities(agent: Agent) -> CapabilitiesView:
    capabilities = agent.capabilities
    return CapabilitiesView(
        kill=capabilities.kill,
        limits=capabilities.limits,
        switches_user=capabilities.switches_user,
        device_access=capabilities.device_access,
        enforced=capabilities.enforced,
        sandbox=capabilities.sandbox,
        sandbox_mode=capabilities.sandbox_mode,
        sandbox_note=capabilities.sandbox_note,
        containers=capabilities.containers,
        containers_note=capabilities.containers_note,
        images=capabilities.images,
    )


def _capacity(agent: Agent) -> Mapping[SlotName, int]:
    sums: dict[SlotName, int] = defaultdict(int)
    for device in agent.devices:
        if device.health is DeviceHealth.HEALTHY:
            for slot in device.costs:
                sums[slot] += device.capacity(slot)
    return sums


def _occupied(agent: Agent, specs: Iterable[ResourceSpec]) -> Mapping[SlotName, int]:
    """What is held of the capacity; amounts granted before a slot was renamed count under the old name."""
    healthy = {device.id for device in agent.devices if device.health is DeviceHealth.HEALTHY}
    sums: dict[SlotName, int] = dict.fromkeys(agent.slot_types, 0)
    for spec in specs:
        for slot, amounts in spec.items():
            held = sum(amount for device_id, amount in amounts.items() if device_id in healthy)
            sums[slot] = sums.get(slot, 0) + held
    return sums


def _texts(amounts: Mapping[SlotName, int]) -> list[tuple[str, str]]:
    return [(slot, format_amount(slot, amount)) for slot, amount in sorted(amounts.items())]


def _holders(
    state: State, leases: Iterable[Lease], devices: Mapping[DeviceId, Device]
) -> Mapping[DeviceId, list[HolderView]]:
    found: dict[DeviceId, list[HolderView]] = defaultdict(list)
    for lease in leases:
        shares: dict[DeviceId, int] = defaultdict(int)
        for slot, amounts in lease.spec.items():
            for device_id, amount in amounts.items():
                shares[device_id] += amount * budget_cost(slot, device=devices.get(device_id))
        for device_id, share in shares.items():
            if device_id in devices:
                found[device_id].append(_holder(state, lease, devices[device_id], share))
    return found


def _holder(state: State, lease: Lease, device: Device, share: int) -> HolderView:
    return HolderView(
        lease_id=lease.id,
        kind=lease.kind,
        user=lease.owner,
        session_id=lease.session_id,
        kernel_id=lease.kernel_id,
        agent_id=lease.agent_id,
        share=format_amount(budget_slot(device), share),
        since=moment(lease.granted_us),
        until=moment_or_none(lease.until_us if lease.kernel_id is None else _expected_end_us(state, lease.session_id)),
        isolation=device.isolation,
    )


def _expected_end_us(state: State, session_id: SessionId | None) -> int | None:
    """End by the session's time limit, else by its owner's estimate; None without either."""
    session = None if session_id is None else state.sessions.get(session_id)
    if session is None or session.started_us is None:
        return None
    duration_ms = session.spec.time_limit_ms or session.spec.estimated_duration_ms
    return None if duration_ms is None else session.started_us + duration_ms * 1000
