"""Window: the reservation of the head of the queue on node states, and what later sessions may use beside it.

The same search and the same rules as in `scheduler.backfill`.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from aliquot.core.foresight.node_capacity import NodeCapacity, Nodes, Part, PlacementNeeds, SessionParts, place_on
from aliquot.core.foresight.running import NEVER_US, End, RunningSession, RunningSet, overdue_end_us
from aliquot.core.scheduler.backfill import earliest


class _Steps:
    """Expected ends in steps: all sessions that are expected to end at one time. Read as far as needed."""

    def __init__(self, running: RunningSet, *, now_us: int) -> None:
        self._left: Iterator[End] = iter(running.in_order_of_ends(now_us))
        self._next = next(self._left, None)
        self.sessions: Final[list[RunningSession]] = []
        """In the order of their ends."""
        self.times_us: Final[list[int]] = []
        self.ends: Final[list[int]] = []
        """Per step, the number of sessions that have ended after it."""
        self._milli = 0

    def read(self) -> bool:
        """Read another step; False if there is none."""
        if self._next is None:
            return False
        at_us = self._next[0]
        while self._next is not None and self._next[0] == at_us:
            self.sessions.append(self._next[2])
            self._milli += self._next[2].milli
            self._next = next(self._left, None)
        self.times_us.append(at_us)
        self.ends.append(len(self.sessions))
        return True

    def first_releasing(self, milli: int) -> int:
        """The first step after which at least `milli` have been released; the number of steps if there is none."""
        while self.read():
            if self._milli >= milli:
                return len(self.ends) - 1
        return len(self.ends)

    def last_up_to(self, step: int) -> int:
        """`step`, or the last one if there are fewer."""
        while len(self.ends) <= step and self.read():
            pass
        return min(step, len(self.ends) - 1)


class ReservedCapacity:
    """Capacity at the time of a reservation: the nodes on which sessions end before it; made when it is first read."""

    __slots__ = ("_before", "_changed", "_made", "_now", "_since", "at_us")

    def __init__(self, now: NodeCapacity, changed: Mapping[int, int], *, at_us: int) -> None:
        """
        Args:
            changed: by row, what is held on the nodes on which sessions end.
        """
        self.at_us: Final = at_us
        self._now = now
        self._before = now.held.copy()
        """Sessions that start before the first reading end before the reservation, and are not part of it."""
        self._since = len(now.log)
        self._changed = changed
        self._made: NodeCapacity | None = None

    def held(self, row: int) -> int:
        """What is held on a node then."""
        if self._made is not None:
            return self._made.held[row]
        changed = self._changed.get(row)
        return self._before[row] if changed is None else changed

    def place(self, head: PlacementNeeds) -> SessionParts | None:
        """Where the head fits then, after it has not fit without the changed nodes."""
        if head.size > 1 or self._made is not None:
            return self.capacity().place(head)
        return place_on(head, self._changed)

    def capacity(self) -> NodeCapacity:
        """All of it."""
        if self._made is None:
            self._made = self._now.at(self._since, held=self._before)
            for row, state in self._changed.items():
                self._made.put(row, state)
        return self._made


class Window:
    """Capacity that backfilled sessions may use; see `BackfillWindow`."""

    def __init__(
        self,
        head: PlacementNeeds,
        base: ReservedCapacity,
        *,
        now: NodeCapacity,
        nodes: Nodes,
        placed: SessionParts | None = None,
        spare: int | None = None,
    ) -> None:
        """
        Args:
            base: free capacity when the head is to start, without the head.
            now: free capacity at present.
            placed: the devices reserved for the head; None = not looked for yet, but it fits.
            spare: how many more kernels of the head fit in `base`, if the head is additive; None = not known.
        """
        self.at_us: Final = base.at_us
        self._spare = spare
        self._head = head
        self._placed = placed
        self._base = base
        self._now = now
        self._nodes = nodes

    def place(self, spot: PlacementNeeds, placed: SessionParts) -> SessionParts | None:
        """Where a session that outlasts the window may run; None if it must wait.

        Args:
            placed: where it fits now.
        """
        beside = self.beside(spot)
        if beside is not None:
            return beside
        if self._spare is not None and self._spare < self._displaced(placed.parts):
            return None  # the head fits nowhere else
        base = self._base.capacity()
        later = base.copy()
        later.take(self._reserved().parts)
        if placed.milli > later.free_milli():
            return None
        without = base.copy()
        without.take(placed.parts)
        moved = without.place(self._head)
        if moved is None:
            return None
        self._placed = moved
        return placed

    def beside(self, spot: PlacementNeeds) -> SessionParts | None:
        """Where a session that outlasts the window fits beside the devices reserved for the head."""
        return self._now.place_beside(spot, self._beside_head())

    def take(self, parts: tuple[Part, ...], *, outlasts: bool) -> None:
        """Count a session as placed, after the present capacity has counted it."""
        if outlasts:
            if self._spare is not None:
                self._spare -= self._displaced(parts)
            self._base.capacity().take(parts)

    def _reserved(self) -> SessionParts:
        """The devices reserved for the head."""
        if self._placed is None:
            self._placed = self._base.place(self._head)
        assert self._placed is not None, "a session fits where enough of its kernels fit"
        return self._placed

    def _beside_head(self) -> Mapping[int, int]:
        """By row of the head, per device the larger of what is held now and what is held once the head has started.

        On other rows no more is held then than now.
        """
        later: dict[int, int] = {}
        for row, delta in self._reserved().parts:
            later[row] = (later[row] if row in later else self._base.held(row)) + delta
        held, shapes = self._now.held, self._nodes.shapes
        return {row: shapes[row].larger(held[row], state) for row, state in later.items()}

    def _displaced(self, parts: tuple[Part, ...]) -> int:
        """How many kernels of an additive head no longer fit in `base` beside a session."""
        fills, closed = self._head.fills, self._head.closed
        lost = 0
        for row, more in parts:
            if row not in closed:
                state = self._base.held(row)
                lost += fills[row][state] - fills[row][state + more]
        return lost


def reserve(
    head: PlacementNeeds, *, milli: int, now: NodeCapacity, running: RunningSet, nodes: Nodes, now_us: int
) -> Window | None:
    """Reserve for the head of the queue; None if it does not fit even after all sessions have ended.

    Args:
        milli: accelerators of all of its kernels.
        now: free capacity at present.
        running: all sessions that hold devices in it.
    """
    if head.is_additive:
        return _reserve_by_count(head, milli=milli, now=now, running=running, nodes=nodes, now_us=now_us)
    steps = _Steps(running, now_us=now_us)

    def fit(step: int) -> tuple[NodeCapacity, SessionParts] | None:
        base = now.copy()
        for session in steps.sessions[: steps.ends[step]]:
            base.release(session.parts)
        placed = base.place(head)
        return None if placed is None else (base, placed)

    low, stride = steps.first_releasing(milli - now.free_milli()), 1
    step, found = low, None
    while (step := steps.last_up_to(low + stride - 1)) >= low:
        found = fit(step)
        if found is not None:
            break
        low, stride = step + 1, stride * 2
    if found is None:
        return None
    step, (base, placed) = earliest(fit, low, step, found)
    changed = {row: state for row, state in enumerate(base.held) if state != now.held[row]}
    return Window(head, ReservedCapacity(now, changed, at_us=steps.times_us[step]), now=now, nodes=nodes, placed=placed)


def _reserve_by_count(
    head: PlacementNeeds, *, milli: int, now: NodeCapacity, running: RunningSet, nodes: Nodes, now_us: int
) -> Window | None:
    """`reserve` for a head that fits as soon as enough of its kernels do.

    Sessions are counted as ended one after another, and only the nodes that they were on are examined again.
    """
    fills, closed, states = head.fills, head.closed, now.held
    short, step_us = milli - now.free_milli(), 0
    held: dict[int, int] = {}
    """States of the nodes that sessions have ended on."""
    missing = head.size - (now.count(head) if head.size > 1 else 0)
    ends, ahead = running.expected(now_us)
    early, count = ahead - 1, len(ends)
    early_us = overdue_end_us(ends[early][2], now_us) if early >= 0 else NEVER_US
    ahead_us = ends[ahead][0] if ahead < count else NEVER_US
    while True:
        # The longer a session is overdue, the later it is expected to end.
        is_overdue = early_us <= ahead_us
        at_us = early_us if is_overdue else ahead_us
        if at_us != step_us:
            if missing <= 0 and (short <= 0 or at_us == NEVER_US):
                break
            if at_us == NEVER_US:
                return None
            step_us = at_us
        if is_overdue:
            session = ends[early][2]
            early -= 1
            early_us = overdue_end_us(ends[early][2], now_us) if early >= 0 else NEVER_US
        else:
            session = ends[ahead][2]
            ahead += 1
            ahead_us = ends[ahead][0] if ahead < count else NEVER_US
        for row, delta in session.parts:
            before = held[row] if row in held else states[row]
            held[row] = state = before - delta
            if row not in closed:
                missing -= fills[row][state] - fills[row][before]
        short -= session.milli
    return Window(head, ReservedCapacity(now, held, at_us=step_us), now=now, nodes=nodes, spare=-missing)
