"""Records and batches for tests of the store, with fresh ids."""

import itertools
from typing import Any

from msgspec.structs import replace

from aliquot.service.ports import Batch, RowWrite
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.events import Event, Record
from aliquot_schema.ids import AgentId, LeaseId, NodeId, SessionId, UserId, kernel_id
from aliquot_schema.resources.leases import Kernel, Lease, LeaseKind
from aliquot_schema.resources.slots import ResourceSlot
from aliquot_schema.sessions import Session, SessionSpec
from aliquot_schema.states import SessionState

AGENT = AgentId("agent-1")
ALICE = UserId("alice")
BOB = UserId("bob")

_serial = itertools.count(1)


def session(**changes: Any) -> Session:
    """A queued session; later ids sort after earlier ones."""
    number = next(_serial)
    fresh = Session(
        id=SessionId(f"ses_{number:08d}"),
        version=1,
        owner=ALICE,
        spec=SessionSpec(argv=("/bin/sh", "-c", "true"), slots=ResourceSlot({"cuda.shares": 500, "mem": 2**30})),
        queued_us=1_000_000 + number,
    )
    return replace(fresh, **changes)


def moved(before: Session, state: SessionState, **changes: Any) -> Session:
    """The next version of a session."""
    return replace(before, version=before.version + 1, state=state, **changes)


def kernel(of: Session, *, rank: int = 0, **changes: Any) -> Kernel:
    """A granted kernel of the session's current attempt."""
    fresh = Kernel(
        id=kernel_id(of.id, attempt=of.attempt, rank=rank),
        version=1,
        session_id=of.id,
        attempt=of.attempt,
        rank=rank,
        agent_id=AGENT,
        epoch=1,
        granted_us=2_000_000,
    )
    return replace(fresh, **changes)


def lease(of: Kernel, **changes: Any) -> Lease:
    """The lease of a kernel."""
    fresh = Lease(
        id=LeaseId(of.id),
        version=1,
        kind=LeaseKind.SESSION,
        owner=ALICE,
        session_id=of.session_id,
        kernel_id=of.id,
        agent_id=of.agent_id,
        spec={"cuda.shares": {"GPU-1": 500}},
        epoch=of.epoch,
        granted_us=of.granted_us,
    )
    return replace(fresh, **changes)


def agent(**changes: Any) -> Agent:
    """An agent without devices."""
    fresh = Agent(
        id=AGENT,
        version=1,
        node_id=NodeId("node-1"),
        hostname="host",
        registered_us=1_000_000,
        state_changed_us=1_000_000,
    )
    return replace(fresh, **changes)


def batch(*records: Record, **changes: Any) -> Batch:
    """Write these records, in order."""
    writes = tuple(RowWrite(record=record, kind=f"{type(record).__name__.lower()}.written") for record in records)
    return replace(Batch(writes=writes, at_us=3_000_000, actor="alice"), **changes)


def fold(events: tuple[Event, ...]) -> dict[str, Record]:
    """The state after the events: the newest record of each entity."""
    return {f"{event.entity}/{event.entity_id}": event.record for event in events}
