"""Holders: which sessions hold devices, or parts of devices, that offer a slot. Evidence for verdicts."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from operator import itemgetter
from typing import Final

from aliquot.core.allocation.layout import SlotLayout
from aliquot.core.model.agent_index import AgentIndex
from aliquot.core.model.plan import KernelPlacement
from aliquot.core.model.snapshot import AgentRow, HoldersOn
from aliquot_schema.ids import AgentId, NodeId, SessionId, SlotName

Pair = tuple[SessionId, AgentId]
"""A session that holds (a part of) a device, and an agent that has this device."""
CHANGED_PART: Final = 8
"""If more than one node in 8 has changed, sorting everything is faster than updating pair by pair."""


class HolderIndex:
    """Holders by slot; recomputed for nodes whose mapping of holders is another one than before."""

    def __init__(self, agent_index: AgentIndex) -> None:
        self._agent_index = agent_index
        self._read: dict[NodeId, HoldersOn] = {}
        """The mapping (by identity) that the pairs of each node were made from."""
        self._on: dict[NodeId, Mapping[SlotName, set[Pair]]] = {}
        self._pairs: dict[SlotName, list[Pair]] = {}

    def follow(self, held: Mapping[NodeId, HoldersOn]) -> Mapping[SlotName, Sequence[Pair]]:
        """The pairs of each slot, sorted; valid until the next call."""
        if held == self._read:  # compares the mappings by identity first
            return self._pairs
        changed = [node_id for node_id, holders in held.items() if self._read.get(node_id) is not holders]
        gone = [node_id for node_id in self._read if node_id not in held]
        moves_each = CHANGED_PART * (len(changed) + len(gone)) <= len(held)
        for node_id in (*gone, *changed):
            before = self._on.get(node_id, {})
            now = self._on[node_id] = pairs_on(self._agent_index, node_id, held.get(node_id, {}))
            for slot in dict.fromkeys((*before, *now)) if moves_each else ():
                _update_sorted(self._pairs.setdefault(slot, []), before.get(slot, set()), now.get(slot, set()))
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
    """Holders of a snapshot, and of the sessions placed since."""

    def __init__(
        self,
        before: Mapping[SlotName, Sequence[Pair]],
        taken: Sequence[tuple[SessionId, KernelPlacement]],
        *,
        agent_index: AgentIndex,
    ) -> None:
        """`taken` may grow afterwards."""
        self._before = before
        self._taken = taken
        self._agent_index = agent_index
        self._since: list[tuple[SessionId, KernelPlacement]] = []
        """`taken`, sorted by session."""

    def oldest(self, slots: Sequence[SlotName], agents: Sequence[AgentRow], *, most: int) -> tuple[SessionId, ...]:
        """The oldest sessions, at most `most`, that hold devices of these open agents offering one of the slots."""
        if len(self._since) < len(self._taken):
            self._since = sorted(self._taken, key=itemgetter(0))
        allowed = None if len(agents) == len(self._agent_index.open) else {agent.id for agent in agents}
        found: dict[SessionId, None] = {}
        sources = [*filter(None, (self._before.get(slot) for slot in slots)), self._new(slots)]
        for session_id, agent_id in merge(*sources):
            if allowed is None or agent_id in allowed:
                found[session_id] = None
                if len(found) == most:
                    break
        return tuple(found)

    def _new(self, slots: Sequence[SlotName]) -> Iterator[Pair]:
        """Holders placed since the snapshot, by session."""
        for session_id, kernel in self._since:
            for agent in self._agent_index.open_on.get(kernel.node_id, ()):
                if any(_is_part_of(kernel, agent.layout.slots.get(slot)) for slot in slots):
                    yield session_id, agent.id


def _is_part_of(kernel: KernelPlacement, columns: SlotLayout | None) -> bool:
    """Whether a kernel holds a device that offers the slot of these columns."""
    return columns is not None and any(
        not columns.places.keys().isdisjoint(amounts) for amounts in kernel.spec.values()
    )


def pairs_on(agent_index: AgentIndex, node_id: NodeId, held: HoldersOn) -> Mapping[SlotName, set[Pair]]:
    """Holders on one node, by the slots that healthy devices of open agents offer."""
    found: dict[SlotName, set[Pair]] = {}
    for agent in agent_index.open_on.get(node_id, ()) if held else ():
        for slot, columns in agent.layout.slots.items():
            for sessions in dict.fromkeys(map(held.get, columns.ids)):
                if sessions is not None:
                    found.setdefault(slot, set()).update([(session_id, agent.id) for session_id in sessions])
    return found


def _update_sorted(pairs: list[Pair], before: set[Pair], now: set[Pair]) -> None:
    for pair in sorted(before - now):
        del pairs[bisect_left(pairs, pair)]
    for pair in sorted(now - before):
        insort(pairs, pair)
