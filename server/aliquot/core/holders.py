"""Holders: which sessions hold a part of the devices that offer a slot."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import merge

from aliquot.core.plan import KernelPlacement
from aliquot.core.roster import Roster
from aliquot.core.snapshot import AgentRow
from aliquot_schema.ids import AgentId, DeviceId, NodeId, SessionId, SlotName

Pairs = Mapping[SlotName, Sequence[tuple[SessionId, AgentId]]]
"""By slot, who holds a part of a device that offers it, and an agent that has this device: sorted, each pair once."""


class Holders:
    """Those of a snapshot, and those that were placed since."""

    def __init__(self, before: Pairs, taken: Sequence[tuple[SessionId, KernelPlacement]], *, roster: Roster) -> None:
        """`taken` may grow."""
        self._before = before
        self._taken = taken
        self._roster = roster
        self._since: Pairs = {}
        self._seen = 0

    def oldest(self, slots: Iterable[SlotName], agents: Sequence[AgentRow], *, most: int) -> tuple[SessionId, ...]:
        """The first sessions that hold a part of a device of these open agents that offers one of the slots."""
        if self._seen < len(self._taken):
            self._seen = len(self._taken)
            self._since = pairs_of(self._roster, _each_part(self._taken))
        allowed = None if len(agents) == len(self._roster.open) else {agent.id for agent in agents}
        found: dict[SessionId, None] = {}
        columns = [held.get(slot, ()) for slot in slots for held in (self._before, self._since)]
        for session_id, agent_id in merge(*columns):
            if allowed is None or agent_id in allowed:
                found[session_id] = None
                if len(found) == most:
                    break
        return tuple(found)


def pairs_of(
    roster: Roster, held: Iterable[tuple[NodeId, Collection[DeviceId], Sequence[SessionId]]]
) -> dict[SlotName, list[tuple[SessionId, AgentId]]]:
    """The holders of devices by the slots that healthy devices of open agents offer."""
    found: dict[SlotName, set[tuple[SessionId, AgentId]]] = {}
    for node_id, devices, sessions in held:
        for agent in roster.open_on.get(node_id, ()):
            for slot, columns in agent.layout.slots.items():
                if not columns.places.keys().isdisjoint(devices):
                    found.setdefault(slot, set()).update([(session_id, agent.id) for session_id in sessions])
    return {slot: sorted(pairs) for slot, pairs in found.items()}


def _each_part(
    taken: Iterable[tuple[SessionId, KernelPlacement]],
) -> Iterator[tuple[NodeId, Collection[DeviceId], tuple[SessionId]]]:
    for session_id, kernel in taken:
        own = (session_id,)
        for amounts in kernel.spec.values():
            yield kernel.node_id, amounts.keys(), own
