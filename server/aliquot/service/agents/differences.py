"""Differences between the stored state and one agent's inventory, and foreign processes on accelerators.

Detection only: nothing is changed here. One observation proves nothing, because messages may be on their way.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from aliquot.service.lifecycle.agent_registration import NOT_CLAIMED
from aliquot.service.state.agents import Blocked, ForeignUsers
from aliquot.service.state.snapshots import is_present
from aliquot.service.state.state import State
from aliquot.service.views.agents import budget_slot
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.cluster.findings import Discrepancy
from aliquot_schema.cluster.launching import ALIVE, Inventory, KernelPhase, KernelReport, SpecOnDisk
from aliquot_schema.ids import AgentId, DeviceId, KernelId, LeaseId, NodeId, SessionId
from aliquot_schema.resources.devices import Device, DeviceHealth, DeviceProcess, ResourceSpec
from aliquot_schema.resources.leases import Kernel
from aliquot_schema.resources.slots import amount_text, format_amount, is_accelerator
from aliquot_schema.sessions import Session
from aliquot_schema.states import KernelState, SessionState

D: Final = Discrepancy
PROCESSES_NAMED: Final = 5
"""Processes named in the evidence of one device."""
ENDED_PHASES: Final = frozenset({KernelPhase.EXITED, KernelPhase.REFUSED})
_HEALTH: Final = {DeviceHealth.GONE: D.DEVICE_GONE, DeviceHealth.UNHEALTHY: D.DEVICE_UNHEALTHY}


class Difference(Struct, frozen=True, kw_only=True):
    """One observed difference; the next message may resolve it."""

    kind: Discrepancy
    agent_id: AgentId
    subject: str
    """Kernel or device id."""
    evidence: str
    version: int | None = None
    """Version of the kernel when it was observed; once that has changed, the difference is void. None = no kernel."""
    holders: tuple[SessionId, ...] = ()
    """Sessions that hold the device."""

    @property
    def key(self) -> tuple[Discrepancy, AgentId, str]:
        """Identifies repeated observations of the same difference."""
        return self.kind, self.agent_id, self.subject


def known_kernels(state: State) -> dict[AgentId, dict[KernelId, int]]:
    """Versions of the kernels that have not exited, by agent; read before agents are queried."""
    found: dict[AgentId, dict[KernelId, int]] = {}
    for kernel in state.live_kernels.by_id.values():
        found.setdefault(kernel.agent_id, {})[kernel.id] = kernel.version
    return found


def differences(
    state: State, inventory: Inventory, *, before: Mapping[KernelId, int], now_us: int, grace_ms: int
) -> Iterator[Difference]:
    """Compare the state with an inventory.

    Args:
        before: versions from `known_kernels` when the agent was queried; kernels changed since then are skipped.
        grace_ms: time that kernels have to stop, unless they were granted more.
    """
    agent_id = inventory.agent.id
    reports = {report.kernel_id: report for report in inventory.kernels}
    for kernel_id, version in before.items():
        kernel = state.kernels.get(kernel_id)
        if kernel is not None and kernel.version == version:
            overdue_us = now_us - 1000 * grace_ms
            yield from _kernel_differences(state, kernel, reports.get(kernel_id), now_us=now_us, overdue_us=overdue_us)
    for report in inventory.kernels:
        known = state.kernels.get(report.kernel_id)
        if (
            report.phase in ALIVE
            and report.code != NOT_CLAIMED
            and (known is None or known.state is KernelState.EXITED)
        ):
            words = "the store has no such kernel" if known is None else "the store has it exited"
            yield _difference(D.PROCESS_WITHOUT_LEASE, agent_id, report.kernel_id, f"it is {report.phase}; {words}")
    for spec in inventory.specs:
        yield from _spec_differences(state, agent_id, spec, before=before, reports=reports)
    yield from _device_differences(state, inventory)


def _kernel_differences(
    state: State, kernel: Kernel, report: KernelReport | None, *, now_us: int, overdue_us: int
) -> Iterator[Difference]:
    session = state.sessions.get(kernel.session_id)
    stored = f"the store has it {kernel.state}"
    if kernel.state is KernelState.GRANTED:
        return
    if report is None or report.code == NOT_CLAIMED:
        yield _kernel_difference(kernel, D.LEASE_WITHOUT_PROCESS, f"{stored}; its agent has not started it")
    elif report.phase in ENDED_PHASES:
        yield _kernel_difference(kernel, D.LEASE_WITHOUT_PROCESS, f"{stored}; its agent has it {report.phase}")
    elif _should_be_gone(kernel, session, now_us=now_us, overdue_us=overdue_us):
        ended = "is not known" if session is None else f"is {session.state}"
        yield _kernel_difference(kernel, D.PROCESS_AFTER_END, f"{stored} and it still runs; its session {ended}")


def _kernel_difference(kernel: Kernel, kind: Discrepancy, evidence: str) -> Difference:
    return Difference(kind=kind, agent_id=kernel.agent_id, subject=kernel.id, evidence=evidence, version=kernel.version)


def _should_be_gone(kernel: Kernel, session: Session | None, *, now_us: int, overdue_us: int) -> bool:
    """Whether the time that a kernel had to end is over."""
    if session is None:
        return True
    if session.state is SessionState.PREEMPTING and session.preemption is not None:
        return kernel.state is KernelState.STOPPING and session.preemption.until_us < now_us
    if session.ended_us is not None:
        return session.ended_us < overdue_us
    return kernel.state is KernelState.STOPPING


def _spec_differences(
    state: State,
    agent_id: AgentId,
    spec: SpecOnDisk,
    *,
    before: Mapping[KernelId, int],
    reports: Mapping[KernelId, KernelReport],
) -> Iterator[Difference]:
    if spec.ended:
        return
    lease = state.leases.get(LeaseId(spec.kernel_id))
    report = reports.get(spec.kernel_id)
    if lease is None or lease.released_us is not None:
        if report is None or report.phase not in ALIVE or report.code == NOT_CLAIMED:
            words = "it has no lease" if lease is None else "its lease was released"
            yield _difference(D.SPEC_WITHOUT_LEASE, agent_id, spec.kernel_id, words)
    elif spec.kernel_id in before and spec.spec is None:
        yield _difference(D.SPEC_DIFFERS, agent_id, spec.kernel_id, "the agent's file cannot be read")
    elif spec.kernel_id in before and _normalized(spec.spec or {}) != _normalized(lease.spec):
        words = f"the agent's file says {_spec_text(spec.spec or {})}, the lease {_spec_text(lease.spec)}"
        yield _difference(D.SPEC_DIFFERS, agent_id, spec.kernel_id, words)


def _spec_text(spec: ResourceSpec) -> str:
    """Amounts as people read them: `0.30 cuda.shares of cuda0`."""
    parts = [
        f"{format_amount(slot, amount)} {slot} of {device_id}"
        for slot, amounts in _normalized(spec).items()
        for device_id, amount in amounts.items()
    ]
    return ", ".join(parts) or "nothing"


def _device_differences(state: State, inventory: Inventory) -> Iterator[Difference]:
    """Held devices that are gone or unhealthy, and accelerators of which more is held than they have; free ones are
    simply not placed on. A device that the agent leaves out without reporting its loss was removed from its
    configuration; its holders keep it."""
    agent = inventory.agent
    held = state.used.get(agent.node_id, {})
    holders = state.holders.get(agent.node_id, {})
    reported = {device.id: device for device in agent.devices}
    for known in state.agents[agent.id].devices if agent.id in state.agents else ():
        device, amount = reported.get(known.id, known), held.get(known.id, 0)
        if not amount or (device.health is DeviceHealth.GONE and _has_another(state, agent, known.id)):
            continue
        sessions = holders.get(known.id, ())
        names = ", ".join(sessions) or "a lease without session"
        if device.health in _HEALTH:
            words = f"it is {device.health} and held by {names}"
            yield replace(_difference(_HEALTH[device.health], agent.id, known.id, words), holders=sessions)
        elif (
            device.health is DeviceHealth.HEALTHY and amount > device.budget and any(map(is_accelerator, device.costs))
        ):
            words = f"{_amount(device, amount)} of its {_amount(device, device.budget)} are held, by {names}"
            more = "its agent reports less than before; nothing new is placed there until enough is released"
            yield _difference(D.DEVICE_OVERCOMMITTED, agent.id, known.id, f"{words}: {more}")


def _amount(device: Device, budget: int) -> str:
    """Budget units of a device as people write them."""
    slot = budget_slot(device)
    return amount_text(slot, format_amount(slot, budget))


def _has_another(state: State, agent: Agent, device_id: DeviceId) -> bool:
    """Whether another agent on the node has the device: devices were reassigned between agents."""
    others = (other for other in state.agents_on(agent.node_id) if other.id != agent.id and is_present(other))
    devices = (device for other in others for device in other.devices)
    return any(device.id == device_id and device.health is not DeviceHealth.GONE for device in devices)


def _difference(kind: Discrepancy, agent_id: AgentId, subject: str, evidence: str) -> Difference:
    return Difference(kind=kind, agent_id=agent_id, subject=subject, evidence=evidence)


def _normalized(spec: ResourceSpec) -> ResourceSpec:
    return {slot: dict(sorted(amounts.items())) for slot, amounts in sorted(spec.items()) if amounts}


def foreign_uses(state: State) -> Iterator[Difference]:
    """Processes outside Aliquot, by the last reading of each accelerator; see `foreign_processes`."""
    in_use = {place for place, reading in state.readings.items() if reading.processes}
    agents = {agent_id for agent_id, _ in in_use}
    for agent in [one for one in state.agents.values() if one.id in agents]:
        for device in [one for one in agent.devices if (agent.id, one.id) in in_use]:
            found = foreign_processes(state, agent, device)
            if found:
                noun = "process" if len(found) == 1 else "processes"
                listed = ", ".join(map(_process_text, found[:PROCESSES_NAMED]))
                more = f" and {len(found) - PROCESSES_NAMED} more" if len(found) > PROCESSES_NAMED else ""
                yield Difference(
                    kind=Discrepancy.EXTERNAL_PROCESS,
                    agent_id=agent.id,
                    subject=device.id,
                    evidence=f"{noun} {listed}{more}",
                )


def foreign_processes(state: State, agent: Agent, device: Device) -> tuple[DeviceProcess, ...]:
    """Processes on an accelerator that no agent of its node started, by its last reading.

    On a device that kernels hold, these are the processes that its agents do not know as theirs. On one that an
    external allocation holds, all processes count as the holder's, and so on one whose slices or whole are held.
    """
    reading = state.readings.get((agent.id, device.id))
    if reading is None or not reading.processes or not any(map(is_accelerator, device.costs)):
        return ()
    held = state.used.get(agent.node_id, {})
    kin = [other.id for other in agent.devices if other.parent == device.id or other.id == device.parent]
    if any(held.get(name) for name in kin):
        return ()
    if not held.get(device.id):
        return reading.processes
    if any(lease.kernel_id is None and _holds(lease.spec, device.id) for lease in state.leases_on(agent.node_id)):
        return ()
    known = {process.pid for process in _measured(state, agent, device) if process.is_job is not False}
    return tuple(process for process in reading.processes if process.pid not in known)


def foreign_users(state: State, sure: Mapping[tuple[AgentId, str], Difference]) -> Mapping[NodeId, ForeignUsers]:
    """Unix accounts of the foreign processes of these differences, by node and device; unknown ones are left out."""
    found: dict[NodeId, dict[DeviceId, tuple[str, ...]]] = {}
    for agent_id, subject in sorted(sure):
        agent = state.agents.get(agent_id)
        for device in agent.devices if agent is not None else ():
            if agent is not None and device.id == subject:
                users = {process.user for process in foreign_processes(state, agent, device) if process.user}
                found.setdefault(agent.node_id, {})[device.id] = tuple(sorted(users))
    return found


def _measured(state: State, agent: Agent, device: Device) -> Iterator[DeviceProcess]:
    """The processes on a device as each agent of the node measured them: each knows its own jobs."""
    for other in state.agents_on(agent.node_id):
        reading = state.readings.get((other.id, device.id))
        yield from (reading.processes if reading is not None else None) or ()


def _holds(spec: ResourceSpec, device_id: DeviceId) -> bool:
    return any(device_id in amounts for amounts in spec.values())


def _process_text(process: DeviceProcess) -> str:
    user = "" if process.user is None else f" of {process.user}"
    size = "" if process.memory_bytes is None else f" ({process.memory_bytes / 2**30:.1f} GiB)"
    return f"{process.pid}{user}{size}"


def blocked_by(state: State, sure: Mapping[tuple[AgentId, str], Difference]) -> Blocked:
    """The devices of these differences with their budgets, by node."""
    found: dict[NodeId, dict[DeviceId, int]] = {}
    for agent_id, subject in sorted(sure):
        agent = state.agents.get(agent_id)
        for device in agent.devices if agent is not None else ():
            if agent is not None and device.id == subject:
                found.setdefault(agent.node_id, {})[device.id] = device.budget
    return found
