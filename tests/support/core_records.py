"""Sessions, kernels, leases and agents with all fields set, for tests of transitions and invariants."""

from typing import Any

from msgspec.structs import replace

from aliquot_schema.cluster.agents import Agent
from aliquot_schema.ids import AgentId, DeviceId, LeaseId, NodeId, SessionId, SlotName, UserId, kernel_id
from aliquot_schema.resources.leases import EndEvidence, Kernel, Lease, LeaseKind
from aliquot_schema.resources.slots import ResourceSlot
from aliquot_schema.sessions import Failure, Session, SessionSpec
from aliquot_schema.states import ENDED, KernelState, SessionState
from allocation_devices import gpus

SESSION = SessionId("ses_1")
SLOT = SlotName("cuda.device")


def session(state: SessionState = SessionState.QUEUED, *, kernels: int = 1, **fields: Any) -> Session:
    """A session in a state, with matching times and attempt."""
    is_ended = state in ENDED
    plain = Session(
        id=SESSION,
        version=1,
        owner=UserId("ann"),
        spec=SessionSpec(argv=("true",), slots=ResourceSlot({SLOT: 1}), cluster_size=kernels),
        state=state,
        attempt=0 if state in (SessionState.QUEUED, SessionState.HELD) else 1,
        queued_us=1,
        ended_us=90 if is_ended else None,
        failure=Failure(code="exit_code", message="it failed") if state is SessionState.FAILED else None,
    )
    return replace(plain, **fields)


def kernel(state: KernelState = KernelState.GRANTED, *, rank: int = 0, attempt: int = 1, **fields: Any) -> Kernel:
    """A rank of the session."""
    is_exited = state is KernelState.EXITED
    plain = Kernel(
        id=kernel_id(SESSION, attempt=attempt, rank=rank),
        version=1,
        session_id=SESSION,
        attempt=attempt,
        rank=rank,
        agent_id=AgentId("a"),
        state=state,
        epoch=1,
        granted_us=10,
        ended_us=80 if is_exited else None,
        exit_code=0 if is_exited else None,
    )
    return replace(plain, **fields)


def lease_of(rank: Kernel, *, device: str = "", **fields: Any) -> Lease:
    """The lease of a kernel, on its rank's whole device."""
    is_exited = rank.state is KernelState.EXITED
    plain = Lease(
        id=LeaseId(rank.id),
        version=1,
        kind=LeaseKind.SESSION,
        owner=UserId("ann"),
        session_id=rank.session_id,
        kernel_id=rank.id,
        agent_id=rank.agent_id,
        spec={SLOT: {DeviceId(device or f"cuda{rank.rank}"): 1}},
        epoch=1,
        granted_us=10,
        released_us=80 if is_exited else None,
        evidence=EndEvidence.EXIT_FILE if is_exited else None,
    )
    return replace(plain, **fields)


def agent(name: str = "a", *, node: str = "n", **fields: Any) -> Agent:
    """An agent with four GPUs."""
    plain = Agent(
        id=AgentId(name),
        version=1,
        node_id=NodeId(node),
        hostname=name,
        devices=gpus(4),
        registered_us=0,
        state_changed_us=0,
    )
    return replace(plain, **fields)
