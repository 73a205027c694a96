"""Agent registration: merges an agent's self-description into its record, and reconciles its kernels with the store.

Both happen each time an agent joins. Devices that a lease holds are never dropped from a record.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from aliquot.core import transitions
from aliquot.service.lifecycle.kernel_reports import apply_report, end_kernel, stop_kernels
from aliquot.service.lifecycle.launch_orders import Orders, attempt_of, start
from aliquot.service.state.agents import accelerator_ids
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.cluster.agents import Agent, KnownSlot
from aliquot_schema.cluster.launching import ALIVE, Inventory, KernelPhase, KernelReport, LaunchOrder
from aliquot_schema.ids import AgentId, DeviceId, KernelId, NodeId, SessionId, SlotName, kernel_parts
from aliquot_schema.resources.devices import Device, DeviceHealth
from aliquot_schema.resources.leases import EndEvidence, Kernel
from aliquot_schema.resources.slots import SlotType
from aliquot_schema.sessions import Session
from aliquot_schema.states import ACTIVE, AGENT_MOVES, AgentState, KernelState

TOLD: Final = (
    "node_id",
    "hostname",
    "devices",
    "slot_types",
    "attributes",
    "capabilities",
    "allocation_mode",
    "scaling_factor",
    "boot_id",
    "software_version",
)
"""Fields that the agent reports; the server owns the others."""


def register(
    draft: UnitOfWork, described: Agent, *, beside: Sequence[Agent] = (), held: frozenset[DeviceId], now_us: int
) -> Agent:
    """Record an agent that joins or rejoins; returns its record.

    Args:
        described: the agent's self-description.
        beside: the recorded agents of its node.
        held: devices held by a lease. Those no longer reported are kept as `leaving`: an agent reports a device that
            its driver lost as `gone`, so an unreported device was removed from its configuration.
    """
    _remember_slots(draft, described.slot_types, now_us=now_us)
    described = replace(described, devices=(*described.devices, *_held_partitions(described, beside, held=held)))
    known = draft.agent(described.id)
    if known is None:
        new = replace(described, version=0, state=AgentState.ALIVE, registered_us=now_us, state_changed_us=now_us)
        return draft.put(new, "joined")
    back = transitions.move_agent(_merged(known, described, held=held), AgentState.ALIVE, now_us=now_us)
    if back == known:
        return known
    return draft.put(back, "changed" if known.state is AgentState.ALIVE else "back")


def elsewhere(state: State, agent_id: AgentId, *, node_id: NodeId, boot_id: str) -> str | None:
    """A message that says why an agent may not join from another machine than before; None when it may.

    Its kernels may still run on the old machine; launched again on the new one, they would run twice. The same boot id
    means the same machine with another node id.
    """
    known = state.agents.get(agent_id)
    if known is None or known.node_id == node_id or known.boot_id == boot_id or not state.is_held(agent_id):
        return None
    return (
        f"{agent_id} holds devices of another machine ({known.hostname}), where its kernels may still run: let them "
        "end there, or confirm with release_lost_agent that they are gone, or give this machine its own --id and key"
    )


def claimed_twice(state: State, agent: Agent) -> Mapping[DeviceId, str]:
    """Accelerators that an agent reports and that belong to an agent of another node, each with a message.

    The ids of accelerators are unique in the world: a node is described by another one's file, or a copy of a machine
    tells the same. An agent that has left, or is lost and holds nothing, claims nothing.
    """
    mine = accelerator_ids(agent)
    found: dict[DeviceId, str] = {}
    known = state.agents.get(agent.id)
    for other in state.registry.reporting(mine):
        # A machine that got another node id is still the same one for the agents that have not reported it yet.
        was_beside = known is not None and (known.node_id, agent.boot_id) == (other.node_id, other.boot_id)
        if agent.id == other.id or agent.node_id == other.node_id or was_beside or not _claims(state, other):
            continue
        for device in other.devices:
            if device.id in mine:
                found[device.id] = (
                    f"device {device.id} is reported by agent {agent.id} on {agent.hostname}, and belongs to agent "
                    f"{other.id} on {other.hostname}: a GPU is in one machine; correct the device file or the machine "
                    f"id of one of them, or stop {other.id} if the GPU was moved"
                )
    return found


def _claims(state: State, agent: Agent) -> bool:
    if agent.state is AgentState.LOST:
        return state.is_held(agent.id)
    return agent.state is not AgentState.LEFT


def leave(draft: UnitOfWork, agent_id: AgentId, *, to: AgentState, now_us: int) -> None:
    """Move an agent that is no longer reachable to `to`; no effect where its state does not allow the move."""
    agent = draft.agent(agent_id)
    if agent is not None and to in AGENT_MOVES[agent.state]:
        draft.put(transitions.move_agent(agent, to, now_us=now_us), str(to))


def with_left_devices(state: State, agents: Iterable[Agent]) -> list[AgentId]:
    """Those of the agents with a device that is `leaving` and no longer held by a lease."""
    return [agent.id for agent in agents if _without_left(state, agent) != agent.devices]


def drop_left_devices(draft: UnitOfWork, state: State) -> None:
    """Remove `leaving` devices that are free by now. No report of an agent follows the end of a lease without a kernel,
    such as an external allocation, so the server checks for them."""
    for agent_id in with_left_devices(state, state.agents.values()):
        agent = draft.agent(agent_id)
        if agent is not None:
            draft.put(replace(agent, devices=_without_left(state, agent)), "changed")


def _without_left(state: State, agent: Agent) -> tuple[Device, ...]:
    held = state.used.get(agent.node_id, {})
    return tuple(d for d in agent.devices if d.health is not DeviceHealth.LEAVING or held.get(d.id))


def _merged(known: Agent, described: Agent, *, held: frozenset[DeviceId]) -> Agent:
    devices = described.devices + tuple(_leaving(known.devices, described.devices, held=held))
    news = {name: getattr(described, name) for name in TOLD}
    return replace(known, **{**news, "devices": devices})


def _leaving(before: tuple[Device, ...], now: tuple[Device, ...], *, held: frozenset[DeviceId]) -> list[Device]:
    present = {device.id for device in now}
    missing = (device for device in before if device.id not in present and device.id in held)
    return [
        device if device.health is DeviceHealth.GONE else replace(device, health=DeviceHealth.LEAVING)
        for device in missing
    ]


def _held_partitions(described: Agent, beside: Sequence[Agent], *, held: frozenset[DeviceId]) -> list[Device]:
    """Held partitions of the agent's devices that other agents had before the node was divided anew, as `leaving`.

    While a partition is held, the whole device is not free (decision 0024).
    """
    wholes = {device.id for device in described.devices}
    others = (device for agent in beside if agent.id != described.id for device in agent.devices)
    partitions = {device.id: device for device in others if device.parent in wholes and device.id in held - wholes}
    return [replace(partition, health=DeviceHealth.LEAVING) for partition in partitions.values()]


def _remember_slots(draft: UnitOfWork, types: Mapping[SlotName, SlotType], *, now_us: int) -> None:
    for name, slot_type in types.items():
        if draft.slot(name) is None:
            draft.put(KnownSlot(id=name, version=0, type=slot_type, first_seen_us=now_us), "first_seen")


NOT_CLAIMED: Final = "not_claimed"
"""Code of a report on an order that the agent has stored but neither started nor stopped yet."""


@dataclass(slots=True, kw_only=True)
class Repairs:
    """Messages to send to the agent after the commit."""

    launch: dict[AgentId, list[LaunchOrder]] = field(default_factory=lambda: defaultdict(list))
    """Launch orders, by the agent that runs them."""
    stop: list[Kernel] = field(default_factory=list)
    orphans: list[KernelId] = field(default_factory=list)
    """Kernels that the agent runs without a lease."""


def reconcile(
    draft: UnitOfWork, inventory: Inventory, kernels: Iterable[Kernel], *, rebooted: bool, epoch: int, now_us: int
) -> Repairs:
    """Reconcile one agent's kernels with the store; returns the messages to send after the commit.

    Args:
        inventory: the agent's report of its kernels.
        kernels: the store's kernels of this agent that have not exited.
        rebooted: whether the node was booted after these were granted, which ended their processes.
        epoch: the epoch of repeated orders.
    """
    repairs = Repairs()
    unsent: list[SessionId] = []
    reports = {report.kernel_id: report for report in inventory.kernels}
    for known in sorted(kernels, key=lambda kernel: kernel.id):
        report = reports.pop(known.id, None)
        kernel = draft.kernel(known.id) or known  # changed if an earlier iteration moved it
        if report is not None and report.code != NOT_CLAIMED and kernel.state is not KernelState.GRANTED:
            repairs.stop += apply_report(draft, report, agent_id=inventory.agent.id, now_us=now_us)
        else:
            if kernel.state is KernelState.GRANTED:
                unsent.append(kernel.session_id)
            _unreported(draft, kernel, repairs, rebooted=rebooted, epoch=epoch, now_us=now_us)
    _add(repairs.launch, start(draft, dict.fromkeys(unsent), epoch=epoch))
    repairs.orphans = [report.kernel_id for report in reports.values() if report.phase in ALIVE]
    for kernel_id in reports:
        _skip_attempts(draft, kernel_id)
    return repairs


def _skip_attempts(draft: UnitOfWork, kernel_id: KernelId) -> None:
    """Let a waiting session go on counting after a process that this database does not know, as after the restore of a
    backup: the next attempt must not have the id, and with it the end, of that process."""
    session_id, attempt, _ = kernel_parts(kernel_id)
    session = draft.session(session_id)
    if session is not None and session.is_pending and session.attempt < attempt:
        draft.put(replace(session, attempt=attempt), "attempts_skipped")


def _unreported(
    draft: UnitOfWork, kernel: Kernel, repairs: Repairs, *, rebooted: bool, epoch: int, now_us: int
) -> None:
    """Handle a kernel that the agent has not started or does not know. Orders are idempotent, hence repeated."""
    is_unsure = kernel.state is KernelState.UNKNOWN and kernel.started_us is None
    if kernel.state is KernelState.STARTING or is_unsure:
        session = draft.session(kernel.session_id)
        assert session is not None, f"{kernel.id} has no session"
        if _is_wanted(draft, session, kernel):
            repairs.launch[kernel.agent_id].append(attempt_of(draft, session).order(kernel, epoch=epoch))
        else:
            stop_kernels(draft, [kernel], now_us=now_us)
    elif kernel.state is not KernelState.EXITED and rebooted:
        gone = KernelReport(
            kernel_id=kernel.id,
            phase=KernelPhase.EXITED,
            at_us=now_us,
            evidence=EndEvidence.BOOT_ID,
            message="the node was restarted while it ran",
        )
        end_kernel(draft, kernel, gone, now_us=now_us)
    elif kernel.state is KernelState.STOPPING:
        repairs.stop.append(kernel)
    elif kernel.state is KernelState.RUNNING:
        draft.put(transitions.move_kernel(kernel, KernelState.UNKNOWN), "unknown")


def _add(orders: dict[AgentId, list[LaunchOrder]], more: Orders) -> None:
    for agent_id, batch in more.items():
        orders[agent_id] += batch


def _is_wanted(draft: UnitOfWork, session: Session, kernel: Kernel) -> bool:
    """Whether the kernel's attempt is still to run: not canceled, and no rank has failed."""
    is_present = session.state in ACTIVE and session.attempt == kernel.attempt
    return is_present and transitions.first_failed(draft.kernels_in(session)) is None
