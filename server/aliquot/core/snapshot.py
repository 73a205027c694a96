"""A snapshot: everything `decide` reads, frozen at one event number."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aliquot.core.allocation.layout import DeviceLayout
from aliquot_schema.ids import AgentId, DeviceId, NodeId, SessionId, SlotName
from aliquot_schema.sessions import Dependency, Priority, Session
from aliquot_schema.slots import Unlimited
from aliquot_schema.states import SessionState

Request = tuple[tuple[SlotName, int], ...]
"""Amounts per kernel in base units, sorted by slot, none zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRow:
    """An agent, as far as placing is concerned."""

    id: AgentId
    node_id: NodeId
    layout: DeviceLayout
    is_open: bool
    """Alive, can be asked, and takes new sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRow:
    """A session in the queue. Made once per version of the session and shared by all snapshots."""

    session_id: SessionId
    version: int
    state: SessionState
    request: Request
    cluster_size: int
    gpu_memory_bytes: int | None
    priority: Priority
    queued_us: int
    not_before_us: int | None
    excluded_agents: tuple[AgentId, ...]
    depends_on: tuple[Dependency, ...]

    @classmethod
    def of(cls, session: Session) -> "PendingRow":
        """Take from a session what a pass needs."""
        return cls(
            session_id=session.id,
            version=session.version,
            state=session.state,
            request=request_of(session),
            cluster_size=session.spec.cluster_size,
            gpu_memory_bytes=session.spec.gpu_memory_bytes,
            priority=session.priority,
            queued_us=session.queued_us,
            not_before_us=session.not_before_us,
            excluded_agents=session.excluded_agents,
            depends_on=session.spec.depends_on,
        )


def request_of(session: Session) -> Request:
    """What each kernel of a session asks for; a session never asks for the unlimited."""
    return tuple((slot, amount) for slot, amount in session.spec.slots.items() if not isinstance(amount, Unlimited))


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state a pass decides on."""

    revision: int
    """The number of the last event it contains."""
    agents: tuple[AgentRow, ...]
    used: Mapping[NodeId, Mapping[DeviceId, int]]
    """Budget units held, per physical device of a node; devices that are idle may be missing."""
    queue: tuple[PendingRow, ...]
    """Every session that is queued or held, in any order."""
    dependencies: Mapping[SessionId, SessionState] = field(default_factory=dict)
    """States of the sessions that rows of the queue depend on; one that is no longer kept is missing."""
    holders: Mapping[tuple[NodeId, DeviceId], tuple[SessionId, ...]] = field(default_factory=dict)
    """Sessions that hold a part of a device, for evidence."""
    asked: Mapping[Request, int] = field(default_factory=dict)
    """How often each request was made, by sessions in the queue and by those before; empty = nothing is known."""
