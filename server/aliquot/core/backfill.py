"""EASY backfill: the first session that does not fit is promised a time and devices, and nobody may take these from it.

Source: Lifka, The ANL/IBM SP scheduling system, JSSPP 1995; here on exact devices instead of counts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from aliquot.core.allocation.occupancy import occupancy_on
from aliquot.core.endings import Endings, Ends
from aliquot.core.memo import Memo
from aliquot.core.placer import Placer
from aliquot.core.plan import KernelPlacement, Reservation
from aliquot.core.policy import Policy
from aliquot.core.room import Room
from aliquot.core.snapshot import PendingRow, RunningRow, Snapshot, held_milli, milli_of
from aliquot_schema.ids import DeviceId, NodeId, SessionId

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What does not change during a pass."""

    snapshot: Snapshot
    policy: Policy
    now_us: int
    seed: int
    memo: Memo = field(default_factory=Memo)

    def room(self, used: Mapping[NodeId, Mapping[DeviceId, int]]) -> Room:
        """The cluster, when so much is held."""
        return Room(replace(self.snapshot, used=used, holders={}), self.policy, memo=self.memo)

    def placer(self, room: Room, *, like: Placer | None = None) -> Placer:
        """Places into a room.

        Args:
            like: one for a room in which much is held as in this one: what it knows saves time.
        """
        return Placer(self.snapshot, self.policy, room=room, seed=self.seed, like=like)


class Headroom:
    """What others may take: until the head starts, all that is free; for longer, what it leaves them then."""

    def __init__(
        self, head: PendingRow, reservation: Reservation, *, now: Room, base: Room, scene: Scene, placer: Placer
    ) -> None:
        """
        Args:
            now: the room as it is, into which `placer` places.
            base: the room at the start of the head, without the head.
        """
        self.reservation = reservation
        self._head = head
        self._now = now
        self._base = base
        self._scene = scene
        self._placer_now = placer
        self._settle()

    def place(self, row: PendingRow, kernels: tuple[KernelPlacement, ...]) -> tuple[KernelPlacement, ...]:
        """As many kernels as fit beside the head for as long as they like.

        Args:
            kernels: all kernels of the row, as they fit now. If nothing else helps, the head goes elsewhere then.
        """
        beside = self._placer.place(row)
        if len(beside) == row.cluster_size or not self._moves_for(row, kernels):
            return beside
        return kernels

    def take(self, row: PendingRow, kernels: Sequence[KernelPlacement], *, outlasts: bool) -> None:
        """Count a session as placed, once the room of now has it."""
        if outlasts:
            self._base.take(row.session_id, kernels)
            self._later.take(row.session_id, kernels)
        self._placer.take(row.session_id, kernels)

    def _moves_for(self, row: PendingRow, kernels: tuple[KernelPlacement, ...]) -> bool:
        """Whether the head could start at its time on other devices, beside these kernels; if so it is promised them.

        What is free now is free then, so the kernels themselves fit.
        """
        if held_milli(kernels, agents=self._now.roster.by_id) > self._later.free_milli():
            return False
        beside = self._scene.room(self._base.used)
        beside.take(row.session_id, kernels)
        moved = self._scene.placer(beside, like=self._placer_now).place(self._head)
        if len(moved) < self._head.cluster_size:
            return False
        self.reservation = replace(self.reservation, kernels=moved)
        self._settle()
        return True

    def _settle(self) -> None:
        """Take the head's devices from what is free when it starts."""
        scene = self._scene
        self._later = scene.room(self._base.used)
        self._later.take(self._head.session_id, self.reservation.kernels)
        both = _BothRoom(scene.snapshot, scene.policy, now=self._now, later=self._later)
        self._placer = scene.placer(both, like=self._placer_now)


class _BothRoom(Room):
    """On every device, the larger of what is held now and what will be held when the head has started."""

    def __init__(self, snapshot: Snapshot, policy: Policy, *, now: Room, later: Room) -> None:
        used = dict(now.used)
        for node_id, held in later.used.items():
            held_now = used.get(node_id)
            if held_now is not held:
                used[node_id] = held if held_now is None else most(held_now, held)
        super().__init__(replace(snapshot, used=used, holders={}), policy, memo=now.memo)
        self._now = now
        self._later = later

    def take(self, session_id: SessionId, kernels: Sequence[KernelPlacement]) -> None:  # noqa: ARG002 # see `Room`
        """Follow the two rooms, which have taken it already."""
        for node_id in dict.fromkeys(kernel.node_id for kernel in kernels):
            self._used[node_id] = most(self._now.used_on(node_id), self._later.used_on(node_id))


def reserve(head: PendingRow, *, room: Room, ends: Ends, scene: Scene, placer: Placer) -> Headroom | None:
    """Find the first time at which the head fits if everybody keeps to his guard, and the devices that it gets then.

    Args:
        room: as it is now, with all that this pass has placed by `placer`.
        ends: of everybody who holds something in it.
    Returns:
        What is left to others; None when the head does not fit even after all of them have ended.
    """
    endings = Endings(ends, now_us=scene.now_us)

    def fit(step: int) -> tuple[Room, tuple[KernelPlacement, ...]] | None:
        base = scene.room(without(endings.gone(step), room=room))
        kernels = scene.placer(base, like=placer).place(head)
        return (base, kernels) if len(kernels) == head.cluster_size else None

    # Before so much is free in sum it need not be tried.
    short = sum(amount * milli_of(slot) for slot, amount in head.request) * head.cluster_size - room.free_milli()
    found = _search(fit, first=endings.first(short), end=len(endings))
    if found is None:
        return None
    step, (base, kernels) = found
    at_us = endings.at_us(step)
    # Whoever has outstayed his guard may end at any moment, and nobody else can be sure to end before him.
    reservation = Reservation(
        session_id=head.session_id, at_us=at_us if at_us > scene.now_us else None, kernels=kernels
    )
    return Headroom(head, reservation, now=room, base=base, scene=scene, placer=placer)


def _search(fit: Callable[[int], Found | None], *, first: int, end: int) -> tuple[int, Found] | None:
    """The first step at which something is found, and what; in growing strides, since most often it is the first."""
    low, stride = first, 1
    step, found = first, None
    while low < end:
        step = min(low + stride - 1, end - 1)
        found = fit(step)
        if found is not None:
            break
        low, stride = step + 1, stride * 2
    if found is None:
        return None
    while low < step:
        middle = (low + step) // 2
        earlier = fit(middle)
        if earlier is None:
            low = middle + 1
        else:
            step, found = middle, earlier
    return step, found


def without(rows: Iterable[RunningRow], *, room: Room) -> dict[NodeId, Mapping[DeviceId, int]]:
    """What is held once these have ended; the very same mapping as in the room where nobody ends."""
    agents = room.roster.by_id
    left: dict[NodeId, dict[DeviceId, int]] = {}
    for row in rows:
        for kernel in row.kernels:
            held = left.get(kernel.node_id)
            if held is None:
                held = left[kernel.node_id] = dict(room.used_on(kernel.node_id))
            devices = agents[kernel.agent_id].layout.devices if kernel.agent_id in agents else {}
            for device_id, amount in occupancy_on((kernel.spec,), devices).items():
                held[device_id] = max(held.get(device_id, 0) - amount, 0)
    return {**room.used, **left}


def most(held: Mapping[DeviceId, int], other: Mapping[DeviceId, int]) -> dict[DeviceId, int]:
    """The larger of the two on every device."""
    larger = dict(held)
    for device_id, amount in other.items():
        if amount > larger.get(device_id, 0):
            larger[device_id] = amount
    return larger
