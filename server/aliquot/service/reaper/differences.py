"""Differences between the state and what one agent has: found by looking, and nothing is changed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from aliquot.service.reconcile import ALIVE, NOT_CLAIMED
from aliquot.service.snapshots import is_present
from aliquot.service.state import State
from aliquot_schema.agents import Agent
from aliquot_schema.devices import DeviceHealth, ResourceSpec
from aliquot_schema.findings import Discrepancy
from aliquot_schema.ids import AgentId, DeviceId, KernelId, LeaseId, SessionId
from aliquot_schema.launching import Inventory, KernelPhase, KernelReport, SpecOnDisk
from aliquot_schema.leases import Kernel
from aliquot_schema.sessions import Session
from aliquot_schema.states import KernelState, SessionState

D: Final = Discrepancy
ENDED_PHASES: Final = frozenset({KernelPhase.EXITED, KernelPhase.REFUSED})
_HEALTH: Final = {DeviceHealth.GONE: D.DEVICE_GONE, DeviceHealth.UNHEALTHY: D.DEVICE_UNHEALTHY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Seen once; it may be gone with the next message."""

    kind: Discrepancy
    agent_id: AgentId
    subject: str
    """The kernel or the device."""
    evidence: str
    version: int | None = None
    """Of the kernel that it was seen of: once that has changed, it says nothing any more. None = there is none."""
    holders: tuple[SessionId, ...] = ()
    """Of the device."""

    @property
    def key(self) -> tuple[Discrepancy, AgentId, str]:
        """The same thing seen again has the same one."""
        return self.kind, self.agent_id, self.subject


def known_kernels(state: State) -> dict[AgentId, dict[KernelId, int]]:
    """Versions of the kernels that have not exited, by agent; to be taken before agents are asked."""
    found: dict[AgentId, dict[KernelId, int]] = {}
    for kernel in state.kernels.values():
        if kernel.state is not KernelState.EXITED:
            found.setdefault(kernel.agent_id, {})[kernel.id] = kernel.version
    return found


def differences(
    state: State, inventory: Inventory, *, before: Mapping[KernelId, int], now_us: int, grace_ms: int
) -> Iterator[Difference]:
    """Compare.

    Args:
        before: of `known_kernels` when the agent was asked; kernels that changed since say nothing.
        grace_ms: what kernels have that are asked to stop, unless they were promised more.
    """
    agent_id = inventory.agent.id
    reports = {report.kernel_id: report for report in inventory.kernels}
    for kernel_id, version in before.items():
        kernel = state.kernels.get(kernel_id)
        if kernel is not None and kernel.version == version:
            overdue_us = now_us - 1000 * grace_ms
            yield from _of_kernel(state, kernel, reports.get(kernel_id), now_us=now_us, overdue_us=overdue_us)
    for report in inventory.kernels:
        known = state.kernels.get(report.kernel_id)
        if (
            report.phase in ALIVE
            and report.code != NOT_CLAIMED
            and (known is None or known.state is KernelState.EXITED)
        ):
            words = "the store knows nothing of it" if known is None else "the store says that it has exited"
            yield _difference(D.PROCESS_WITHOUT_LEASE, agent_id, report.kernel_id, f"it is {report.phase}; {words}")
    for spec in inventory.specs:
        yield from _of_spec(state, agent_id, spec, before=before, reports=reports)
    yield from _of_devices(state, inventory)


def _of_kernel(
    state: State, kernel: Kernel, report: KernelReport | None, *, now_us: int, overdue_us: int
) -> Iterator[Difference]:
    session = state.sessions.get(kernel.session_id)
    says = f"the store has it {kernel.state}"
    if kernel.state is KernelState.GRANTED:
        return
    if report is None or report.code == NOT_CLAIMED:
        yield _of(kernel, D.LEASE_WITHOUT_PROCESS, f"{says}; its agent has started nothing of it")
    elif report.phase in ENDED_PHASES:
        yield _of(kernel, D.LEASE_WITHOUT_PROCESS, f"{says}; its agent has it {report.phase}")
    elif _should_be_gone(kernel, session, now_us=now_us, overdue_us=overdue_us):
        ended = "is not known" if session is None else f"is {session.state}"
        yield _of(kernel, D.PROCESS_AFTER_END, f"{says} and runs; its session {ended}")


def _of(kernel: Kernel, kind: Discrepancy, evidence: str) -> Difference:
    return Difference(kind=kind, agent_id=kernel.agent_id, subject=kernel.id, evidence=evidence, version=kernel.version)


def _should_be_gone(kernel: Kernel, session: Session | None, *, now_us: int, overdue_us: int) -> bool:
    """Whether the time is over that a kernel was given to end."""
    if session is None:
        return True
    if session.state is SessionState.PREEMPTING and session.preemption is not None:
        return kernel.state is KernelState.STOPPING and session.preemption.until_us < now_us
    if session.ended_us is not None:
        return session.ended_us < overdue_us
    return kernel.state is KernelState.STOPPING


def _of_spec(
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
            words = "nobody was granted it" if lease is None else "its lease was released"
            yield _difference(D.SPEC_WITHOUT_LEASE, agent_id, spec.kernel_id, words)
    elif spec.kernel_id in before and spec.spec is None:
        yield _difference(D.SPEC_DIFFERS, agent_id, spec.kernel_id, "the agent's file cannot be read")
    elif spec.kernel_id in before and _plain(spec.spec or {}) != _plain(lease.spec):
        words = f"the agent's file says {_plain(spec.spec or {})}, the lease {_plain(lease.spec)}"
        yield _difference(D.SPEC_DIFFERS, agent_id, spec.kernel_id, words)


def _of_devices(state: State, inventory: Inventory) -> Iterator[Difference]:
    """Of devices that somebody holds; broken ones that are idle are simply not given to anybody."""
    agent = inventory.agent
    held = state.used.get(agent.node_id, {})
    holders = state.holders.get(agent.node_id, {})
    told = {device.id: device for device in agent.devices}
    for known in state.agents[agent.id].devices if agent.id in state.agents else ():
        health = told[known.id].health if known.id in told else DeviceHealth.GONE
        if health is DeviceHealth.GONE and _has_another(state, agent, known.id):
            continue
        if health in _HEALTH and held.get(known.id):
            sessions = holders.get(known.id, ())
            names = ", ".join(sessions) or "a lease of no session"
            words = f"it is {health}, and held by {names}"
            yield replace(_difference(_HEALTH[health], agent.id, known.id, words), holders=sessions)


def _has_another(state: State, agent: Agent, device_id: DeviceId) -> bool:
    """Whether another agent on the node has a device: the node was divided anew."""
    others = (other for other in state.agents_on(agent.node_id) if other.id != agent.id and is_present(other))
    devices = (device for other in others for device in other.devices)
    return any(device.id == device_id and device.health is not DeviceHealth.GONE for device in devices)


def _difference(kind: Discrepancy, agent_id: AgentId, subject: str, evidence: str) -> Difference:
    return Difference(kind=kind, agent_id=agent_id, subject=subject, evidence=evidence)


def _plain(spec: ResourceSpec) -> ResourceSpec:
    return {slot: dict(sorted(amounts.items())) for slot, amounts in sorted(spec.items()) if amounts}
