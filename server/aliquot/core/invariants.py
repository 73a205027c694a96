"""Invariants: checks of the records that hold after every commit; each violation is a sentence."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from aliquot.core.allocation.occupancy import occupancy_on
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.ids import DeviceId, LeaseId, NodeId, SessionId, kernel_id
from aliquot_schema.resources.devices import Device
from aliquot_schema.resources.leases import Kernel, Lease, LeaseKind
from aliquot_schema.sessions import Session
from aliquot_schema.states import ACTIVE, KernelState, SessionState

K = KernelState
S = SessionState

SENT: Final = frozenset({K.STARTING, K.RUNNING, K.STOPPING, K.UNKNOWN, K.EXITED})
STARTED: Final = SENT - {K.STARTING}
ENDING: Final = frozenset({K.STOPPING, K.UNKNOWN, K.EXITED})
GONE: Final = frozenset({K.EXITED})
KERNELS_OF: Final[Mapping[SessionState, frozenset[KernelState]]] = {
    S.QUEUED: GONE,
    S.HELD: GONE,
    S.SCHEDULED: frozenset({K.GRANTED}),
    S.ALLOCATING: SENT,
    S.RUNNING: STARTED,
    S.PREEMPTING: STARTED,
    S.COMPLETED: GONE,
    S.FAILED: GONE,
    S.CANCELED: ENDING,
}
"""States that the kernels of a session's present attempt may have, by the session's state."""


def violations(
    agents: Iterable[Agent],
    *,
    sessions: Iterable[Session],
    kernels: Iterable[Kernel],
    leases: Iterable[Lease],
    budgets: Mapping[tuple[NodeId, DeviceId], int] | None = None,
) -> list[str]:
    """All violations of a state; empty if it is consistent.

    Args:
        agents: all agents, including those that left.
        sessions: any of them; records of other sessions are not checked.
        kernels: of these sessions: all of the present attempt, and those of older attempts that have not exited.
        leases: all open ones; released ones as far as known.
        budgets: the largest budgets that devices had; None = the present ones. A device that shrank while it was held
            is a finding (`device_overcommitted`) and no violation.
    """
    known = {session.id: session for session in sessions}
    kernels = [kernel for kernel in kernels if kernel.session_id in known]
    held_by = {lease.id: lease for lease in leases}
    ranks: dict[SessionId, list[Kernel]] = defaultdict(list)
    found: list[str] = []
    for kernel in kernels:
        if kernel.attempt == known[kernel.session_id].attempt:
            ranks[kernel.session_id].append(kernel)
        elif kernel.state is not K.EXITED:
            found.append(f"{kernel.id} is {kernel.state}, and its session is at another attempt")
        found += _kernel(kernel, held_by.get(LeaseId(kernel.id)))
    for session in known.values():
        found += _session(session, ranks[session.id])
    live = {kernel.id for kernel in kernels if kernel.state is not K.EXITED}
    for lease in held_by.values():
        found += _lease(lease, is_needed=lease.kernel_id in live or lease.session_id not in known)
        found += _external_allocation(lease, known.get(lease.session_id) if lease.session_id is not None else None)
    return found + list(_devices(agents, held_by.values(), budgets or {}))


def _kernel(kernel: Kernel, lease: Lease | None) -> Iterator[str]:
    if kernel.id != kernel_id(kernel.session_id, attempt=kernel.attempt, rank=kernel.rank):
        yield f"{kernel.id} is rank {kernel.rank} of attempt {kernel.attempt} of {kernel.session_id}"
    if (kernel.state is K.EXITED) != (kernel.ended_us is not None):
        yield f"{kernel.id} is {kernel.state}, and its end is {kernel.ended_us}"
    if not _are_ordered(kernel.granted_us, kernel.started_us, kernel.ended_us):
        yield f"{kernel.id} was granted, started and ended out of order"
    if lease is None:
        if kernel.state is not K.EXITED:
            yield f"{kernel.id} is {kernel.state} without a lease"
        return
    if (lease.kernel_id, lease.session_id, lease.agent_id) != (kernel.id, kernel.session_id, kernel.agent_id):
        yield f"{kernel.id} and its lease are of different kernels, sessions or agents"
    if (lease.released_us is None) != (kernel.state is not K.EXITED):
        yield f"{kernel.id} is {kernel.state}, and its lease was released at {lease.released_us}"


def _session(session: Session, ranks: list[Kernel]) -> Iterator[str]:
    has_ranks = bool(session.attempt) and not session.is_external_allocation
    sizes = range(session.kernels_min, session.request.cluster_size + 1) if has_ranks else (0,)
    is_gang = len(ranks) in sizes and sorted(kernel.rank for kernel in ranks) == list(range(len(ranks)))
    if not session.is_pending and not is_gang:
        yield f"{session.id} has ranks {sorted(kernel.rank for kernel in ranks)} in attempt {session.attempt}"
    for kernel in ranks:
        if kernel.state not in KERNELS_OF[session.state]:
            yield f"{session.id} is {session.state}, and its rank {kernel.rank} is {kernel.state}"
    has_kernels = session.tasks is None and not session.is_external_allocation
    if session.state in ACTIVE and has_kernels and all(kernel.state is K.EXITED for kernel in ranks):
        yield f"{session.id} is {session.state}, and none of its kernels is left"
    if session.state is S.COMPLETED and any(kernel.exit_code != 0 for kernel in ranks):
        yield f"{session.id} is completed, and not all of its kernels exited with 0"
    if session.is_ended != (session.ended_us is not None):
        yield f"{session.id} is {session.state}, and its end is {session.ended_us}"
    if (session.state is S.FAILED) != (session.failure is not None):
        yield f"{session.id} is {session.state}, and its failure is {session.failure}"
    if not _are_ordered(session.queued_us, session.scheduled_us, session.started_us, session.ended_us):
        yield f"{session.id} was queued, scheduled, started and ended out of order"


def _lease(lease: Lease, *, is_needed: bool) -> Iterator[str]:
    if lease.kind is LeaseKind.SESSION and lease.released_us is None and not is_needed:
        yield f"lease {lease.id} is open, and no live kernel has it"
    if (lease.released_us is None) != (lease.evidence is None):
        yield f"lease {lease.id} was released at {lease.released_us}, on the evidence {lease.evidence}"
    if not _are_ordered(lease.granted_us, lease.released_us):
        yield f"lease {lease.id} was released before it was granted"


def _external_allocation(lease: Lease, session: Session | None) -> Iterator[str]:
    if lease.kind is not LeaseKind.MANUAL or session is None:
        return
    if lease.kernel_id is not None or not session.is_external_allocation:
        yield f"lease {lease.id} is manual, and belongs to {lease.kernel_id or session.id}"
    if (lease.released_us is None) != (session.state is S.RUNNING):
        yield f"lease {lease.id} was released at {lease.released_us}, and {session.id} is {session.state}"


def _devices(
    agents: Iterable[Agent], leases: Iterable[Lease], budgets: Mapping[tuple[NodeId, DeviceId], int]
) -> Iterator[str]:
    """Overcommitted devices."""
    node_of = {agent.id: agent.node_id for agent in agents}
    devices: dict[NodeId, dict[DeviceId, Device]] = defaultdict(dict)
    for agent in agents:
        devices[agent.node_id].update((device.id, device) for device in agent.devices)
    open_on: dict[NodeId, list[Lease]] = defaultdict(list)
    for lease in leases:
        if lease.released_us is None:
            open_on[node_of[lease.agent_id]].append(lease)
    for node_id, held in open_on.items():
        yield from _node(node_id, devices[node_id], held, budgets)


def _node(
    node_id: NodeId,
    devices: Mapping[DeviceId, Device],
    leases: Iterable[Lease],
    budgets: Mapping[tuple[NodeId, DeviceId], int],
) -> Iterator[str]:
    used = Counter(occupancy_on((lease.spec for lease in leases), devices))
    for device_id, amount in sorted(used.items()):
        device = devices.get(device_id)
        if device is None:
            yield f"{device_id} on {node_id} is held, and no agent knows it"
        elif amount > max(device.budget, budgets.get((node_id, device_id), 0)):
            yield f"{device_id} on {node_id} is held to {amount} of {device.budget}"
        elif device.parent is not None and used[device.parent]:
            yield f"{device_id} on {node_id} is held together with {device.parent}, which it is a slice of"


def _are_ordered(*times: int | None) -> bool:
    known = [at_us for at_us in times if at_us is not None]
    return known == sorted(known)
