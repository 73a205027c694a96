"""Holders: which sessions hold a part of the devices that offer a slot."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from operator import itemgetter
from typing import Final

from aliquot.core.allocation.layout import SlotLayout
from aliquot.core.plan import KernelPlacement
from aliquot.core.roster import Roster
from aliquot.core.snapshot import AgentRow, HoldersOn
from aliquot_schema.ids import AgentId, NodeId, SessionId, SlotName

Pair = tuple[SessionId, AgentId]
"""Who holds a part of a device, and an agent that has this device."""
CHANGED_PART: Final = 8
"""Where more than one node in so many has changed, sorting anew is faster than moving pair by pair."""


class HolderIndex:
    """By slot, the holders of the devices that offer it; counted anew on nodes where others hold something."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._read: dict[NodeId, HoldersOn] = {}
        """The very mapping that the pairs of each node were made from."""
        self._on: dict[NodeId, Mapping[SlotName, set[Pair]]] = {}
        self._pairs: dict[SlotName, list[Pair]] = {}

    def follow(self, held: Mapping[NodeId, HoldersOn]) -> Mapping[SlotName, Sequence[Pair]]:
        """The pairs of each slot, sorted; to be read until the next call only."""
        changed = [node_id for node_id, holders in held.items() if self._read.get(node_id) is not holders]
        gone = [node_id for node_id in self._read if node_id not in held]
        moves_each = CHANGED_PART * (len(changed) + len(gone)) <= len(held)
        for node_id in (*gone, *changed):
            before = self._on.get(node_id, {})
            now = self._on[node_id] = pairs_on(self._roster, node_id, held.get(node_id, {}))
            for slot in dict.fromkeys((*before, *now)) if moves_each else ():
                _move(self._pairs.setdefault(slot, []), before.get(slot, set()), now.get(slot, set()))
        if not moves_each:
            self._sort()
        self._read = dict(held)
        return self._pairs

    def _sort(self) -> None:
        pairs: dict[SlotName, list[Pair]] = {}
        for by_slot in self._on.values():
            for slot, found in by_slot.items():
                pairs.setdefault(slot, []).extend(found)
        self._pairs = {slot: sorted(found) for slot, found in pairs.items()}


class Holders:
    """Those of a snapshot, and those that were placed since."""

    def __init__(
        self,
        before: Mapping[SlotName, Sequence[Pair]],
        taken: Sequence[tuple[SessionId, KernelPlacement]],
        *,
        roster: Roster,
    ) -> None:
        """`taken` may grow."""
        self._before = before
        self._taken = taken
        self._roster = roster
        self._since: list[tuple[SessionId, KernelPlacement]] = []
        """The same, by session."""

    def oldest(self, slots: Sequence[SlotName], agents: Sequence[AgentRow], *, most: int) -> tuple[SessionId, ...]:
        """The first sessions that hold a part of a device of these open agents that offers one of the slots."""
        if len(self._since) < len(self._taken):
            self._since = sorted(self._taken, key=itemgetter(0))
        allowed = None if len(agents) == len(self._roster.open) else {agent.id for agent in agents}
        found: dict[SessionId, None] = {}
        sources = [*filter(None, (self._before.get(slot) for slot in slots)), self._new(slots)]
        for session_id, agent_id in merge(*sources):
            if allowed is None or agent_id in allowed:
                found[session_id] = None
                if len(found) == most:
                    break
        return tuple(found)

    def _new(self, slots: Sequence[SlotName]) -> Iterator[Pair]:
        """Those that were placed since, by session."""
        for session_id, kernel in self._since:
            for agent in self._roster.open_on.get(kernel.node_id, ()):
                if any(_is_part_of(kernel, agent.layout.slots.get(slot)) for slot in slots):
                    yield session_id, agent.id


def _is_part_of(kernel: KernelPlacement, columns: SlotLayout | None) -> bool:
    """Whether it holds a part of a device that offers the slot of these columns."""
    return columns is not None and any(
        not columns.places.keys().isdisjoint(amounts) for amounts in kernel.spec.values()
    )


def pairs_on(roster: Roster, node_id: NodeId, held: HoldersOn) -> Mapping[SlotName, set[Pair]]:
    """The holders on a node by the slots that healthy devices of open agents offer."""
    found: dict[SlotName, set[Pair]] = {}
    devices: dict[tuple[SessionId, ...], list[str]] = {}
    for device_id, sessions in held.items():
        devices.setdefault(sessions, []).append(device_id)
    for agent in roster.open_on.get(node_id, ()):
        for slot, columns in agent.layout.slots.items():
            places = columns.places.keys()
            for sessions, held_alike in devices.items():
                if not places.isdisjoint(held_alike):
                    found.setdefault(slot, set()).update([(session_id, agent.id) for session_id in sessions])
    return found


def _move(pairs: list[Pair], before: set[Pair], now: set[Pair]) -> None:
    for pair in sorted(before - now):
        del pairs[bisect_left(pairs, pair)]
    for pair in sorted(now - before):
        insort(pairs, pair)
