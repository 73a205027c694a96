"""Window: the reservation of the head of the queue on node states, and what later sessions may use beside it.

The same search and the same rules as in `scheduler.backfill`.
"""

from collections.abc import Iterator
from typing import Final

from aliquot.core.foresight.node_capacity import NodeCapacity, Nodes, Part, Parts, Spot
from aliquot.core.foresight.running import End, RunningSession, RunningSet
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


class Window:
    """Capacity that backfilled sessions may use; see `BackfillWindow`."""

    def __init__(
        self,
        head: Spot,
        placed: Parts,
        at_us: int,
        *,
        base: NodeCapacity,
        now: NodeCapacity,
        nodes: Nodes,
        spare: int | None = None,
    ) -> None:
        """
        Args:
            placed: the devices reserved for the head.
            at_us: when the head is to start.
            base: free capacity then, without the head.
            now: free capacity at present.
            spare: how many more kernels of the head fit in `base`, if the head is additive; None = not known.
        """
        self.at_us: Final = at_us
        self._spare = spare
        self._head = head
        self._placed = placed
        self._base = base
        self._now = now
        self._nodes = nodes
        self._both: NodeCapacity | None = None
        """Per device, the larger of what is held now and what is held once the head has started; None = outdated."""

    def place(self, spot: Spot, placed: Parts) -> Parts | None:
        """Where a session that outlasts the window may run; None if it must wait.

        Args:
            placed: where it fits now.
        """
        both = self._both
        if both is None:
            both = self._both = self._now.copy()
            for row, _ in self._placed.parts:
                self._combine(row, both)
        beside = both.place(spot)
        if beside is not None:
            return beside
        if self._spare is not None and self._spare < self._displaced(placed.parts):
            return None  # the head fits nowhere else
        later = self._base.copy()
        later.take(self._placed.parts)
        if placed.milli > later.free_milli():
            return None
        without = self._base.copy()
        without.take(placed.parts)
        moved = without.place(self._head)
        if moved is None:
            return None
        self._placed, self._both = moved, None
        return placed

    def take(self, parts: tuple[Part, ...], *, outlasts: bool) -> None:
        """Count a session as placed, after the present capacity has counted it."""
        if outlasts:
            if self._spare is not None:
                self._spare -= self._displaced(parts)
            self._base.take(parts)
        if self._both is not None:
            for row, _ in parts:
                self._combine(row, self._both)

    def _displaced(self, parts: tuple[Part, ...]) -> int:
        """How many kernels of an additive head no longer fit in `base` beside a session."""
        fills, closed, held = self._head.fills, self._head.closed, self._base.held
        return sum([fills[row][held[row]] - fills[row][held[row] + more] for row, more in parts if row not in closed])

    def _combine(self, row: int, both: NodeCapacity) -> None:
        later = self._base.held[row] + sum(delta for at, delta in self._placed.parts if at == row)
        both.put(row, self._nodes.shapes[row].larger(self._now.held[row], later))


def reserve(
    head: Spot, *, milli: int, now: NodeCapacity, running: RunningSet, nodes: Nodes, now_us: int
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

    def fit(step: int) -> tuple[NodeCapacity, Parts] | None:
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
    return Window(head, placed, steps.times_us[step], base=base, now=now, nodes=nodes)


def _reserve_by_count(
    head: Spot, *, milli: int, now: NodeCapacity, running: RunningSet, nodes: Nodes, now_us: int
) -> Window | None:
    """`reserve` for a head that fits as soon as enough of its kernels do.

    Sessions are counted as ended one after another, and only the nodes that they were on are examined again.
    """
    fills, closed, states = head.fills, head.closed, now.held
    short, step_us = milli - now.free_milli(), 0
    held: dict[int, int] = {}
    """States of the nodes that sessions have ended on."""
    missing = head.size - (now.count(head) if head.size > 1 else 0)
    for at_us, _, session in running.in_order_of_ends(now_us):
        if at_us != step_us:
            if short <= 0 and missing <= 0:
                break
            step_us = at_us
        for row, delta in session.parts:
            before = held[row] if row in held else states[row]
            held[row] = state = before - delta
            if row not in closed:
                missing -= fills[row][state] - fills[row][before]
        short -= session.milli
    else:
        if missing > 0 or not step_us:
            return None
    base = now.copy()
    for row, state in held.items():
        base.put(row, state)
    placed = base.place(head)
    assert placed is not None, "a session fits where enough of its kernels fit"
    return Window(head, placed, step_us, base=base, now=now, nodes=nodes, spare=-missing)
