"""The open leases of work that is run outside, by session."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from aliquot.core.plan import KernelPlacement
from aliquot.core.snapshot import AgentRow, RunningRow
from aliquot_schema.ids import AgentId, LeaseId, SessionId
from aliquot_schema.leases import Lease
from aliquot_schema.natural_order import natural_key
from aliquot_schema.sessions import Session


class OutsideIndex:
    """Follows the leases."""

    def __init__(self) -> None:
        self._of: dict[SessionId, dict[LeaseId, Lease]] = {}

    def put(self, lease: Lease) -> bool:
        """A lease was granted, moved or released; returns whether it is one of these, and nobody's any more."""
        if lease.session_id is None or lease.kernel_id is not None:
            return False
        held = self._of.setdefault(lease.session_id, {})
        if lease.released_us is None:
            held[lease.id] = lease
        else:
            held.pop(lease.id, None)
        if not held:
            del self._of[lease.session_id]
        return lease.released_us is not None

    def of(self, session_id: SessionId) -> list[Lease]:
        """What a session holds without kernels, by rank."""
        return sorted(self._of.get(session_id, {}).values(), key=lambda lease: natural_key(lease.id))

    def sessions(self) -> Iterator[SessionId]:
        """Those that hold something."""
        return iter(list(self._of))

    def ends(self) -> Mapping[SessionId, int]:
        """When they have to give it back, microseconds UTC."""
        ends = ((name, self.end_of(name)) for name in self._of)
        return {name: end_us for name, end_us in ends if end_us is not None}

    def end_of(self, session_id: SessionId) -> int | None:
        """When one has to give it back; None when it holds nothing, or for ever."""
        leases = self._of.get(session_id, {}).values()
        return max((lease.until_us for lease in leases if lease.until_us is not None), default=None)


def outside_row(
    session: Session, leases: Sequence[Lease], *, rows_of: Callable[[Iterable[AgentId]], Sequence[AgentRow]]
) -> RunningRow | None:
    """What a pass reckons with: it ends with its time, and nobody can ask it to make room.

    None when it holds nothing.
    """
    if not leases:
        return None
    agents = rows_of(lease.agent_id for lease in leases)
    nodes = {agent.id: agent.node_id for agent in agents}
    kernels = [
        KernelPlacement(rank=rank, agent_id=lease.agent_id, node_id=nodes[lease.agent_id], spec=lease.spec)
        for rank, lease in enumerate(leases)
    ]
    ends_us = max(lease.granted_us if lease.until_us is None else lease.until_us for lease in leases)
    return replace(
        RunningRow.of(session.id, kernels, ends_us=ends_us, agents=agents),
        version=session.version,
        owner=session.owner,
        project=session.project,
        priority=session.priority,
    )
