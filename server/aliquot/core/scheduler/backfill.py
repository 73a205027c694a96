"""EASY backfill: the head of the queue gets a reservation, and later sessions start only if they do not delay it.

The head is the first session that does not fit. Its reservation is a time and exact devices.

Source: Lifka, The ANL/IBM SP scheduling system, JSSPP 1995; here on exact devices instead of counts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from operator import is_not
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from aliquot.core.allocation.occupancy import larger_of, occupancy_on
from aliquot.core.model.plan import KernelPlacement, Reservation
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow, RunningRow, Snapshot, held_milli
from aliquot.core.scheduler.booking_calendar import BookingCalendar
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.expected_ends import ExpectedEnds, PlannedEnds
from aliquot.core.scheduler.free_capacity import FreeCapacity
from aliquot.core.scheduler.placer import Placer
from aliquot.core.scheduler.temporary_agents import TemporaryAgents
from aliquot_schema.bookings import Booking
from aliquot_schema.ids import DeviceId, NodeId, SessionId

Found = TypeVar("Found")


class PassContext(Struct, frozen=True, kw_only=True):
    """Everything that stays the same during a pass."""

    snapshot: Snapshot
    policy: Policy
    now_us: int
    seed: int
    cache: PassCache = field(default_factory=PassCache)
    bookings: Sequence[Booking] = ()
    """Open bookings after the decisions of this pass."""
    calendar: BookingCalendar | None = None
    """None = nothing is booked."""
    temporary: TemporaryAgents | None = None
    """None = no agent is temporary."""

    def booking_of(self, row: PendingRow | RunningRow) -> Booking | None:
        """The booking that a session uses; None without one, or when it is over."""
        return None if self.calendar is None else self.calendar.booking_of(row)

    def row_at(self, row: PendingRow, at_us: int) -> PendingRow:
        """The row of a session that starts at a time, see `TemporaryAgents.at`."""
        return row if self.temporary is None else self.temporary.at(row, at_us)

    def free_capacity(self, used: Mapping[NodeId, Mapping[DeviceId, int]]) -> FreeCapacity:
        """Free capacity of the cluster with `used` held."""
        return FreeCapacity(replace(self.snapshot, used=used, holders={}), self.policy, cache=self.cache)

    def placer(self, capacity: FreeCapacity, *, like: Placer | None = None, at_us: int | None = None) -> Placer:
        """A placer on some free capacity.

        Args:
            like: a placer on similar capacity; starting from its scores saves time.
            at_us: when the sessions would start, which decides what is booked by others; None = now.
        """
        return Placer(
            self.snapshot,
            self.policy,
            capacity=capacity,
            seed=self.seed,
            like=like,
            calendar=self.calendar,
            at_us=self.now_us if at_us is None else at_us,
        )


class HeadStart(Struct, frozen=True, kw_only=True):
    """When and where the head of the queue is expected to start."""

    head: PendingRow
    """The head as it may be placed at that time."""
    reservation: Reservation
    base: FreeCapacity
    """Free capacity at that time, without the head."""


class BackfillWindow:
    """Capacity that backfilled sessions may use.

    A session that ends before the head starts may use everything free, a longer one only what the head leaves free.
    """

    def __init__(
        self,
        start: HeadStart,
        *,
        now: FreeCapacity,
        context: PassContext,
        placer: Placer,
    ) -> None:
        """
        Args:
            now: free capacity at present; `placer` places on it.
        """
        self.reservation = start.reservation
        self._head = start.head
        self._now = now
        self._base = start.base
        self._context = context
        self._placer_now = placer
        self._update_later()

    @property
    def placer(self) -> Placer:
        """Places sessions beside the head."""
        return self._placer

    def place(self, row: PendingRow, kernels: tuple[KernelPlacement, ...]) -> tuple[KernelPlacement, ...]:
        """Kernels of a row that fit beside the head without a time limit; fewer than all if the row must wait.

        Args:
            kernels: all kernels of the row, as placed now; used if the head can be reserved other devices instead.
        """
        beside = self._placer.place(row)
        if len(beside) == row.cluster_size or not self._move_head_for(row, kernels):
            return beside
        return kernels

    def take(self, row: PendingRow, kernels: Sequence[KernelPlacement], *, outlasts: bool) -> None:
        """Count a session as placed; call it after `now` has counted it."""
        if outlasts:
            self._base.take(row.session_id, kernels)
            self._later.take(row.session_id, kernels)
        self._placer.take(row.session_id, kernels)

    def _move_head_for(self, row: PendingRow, kernels: tuple[KernelPlacement, ...]) -> bool:
        """Move the reservation to other devices at the same time, to let these kernels run on; False if impossible.

        Devices that are free now are free then, so the kernels themselves fit.
        """
        if held_milli(kernels, agents=self._now.agent_index.by_id) > self._later.free_milli():
            return False
        beside = self._context.free_capacity(self._base.used)
        beside.take(row.session_id, kernels)
        at_us = self.reservation.at_us
        moved = self._context.placer(beside, like=self._placer_now, at_us=at_us).place(self._head)
        if len(moved) < self._head.cluster_size:
            return False
        self.reservation = replace(self.reservation, kernels=moved)
        self._update_later()
        return True

    def _update_later(self) -> None:
        """Recompute the capacity left beside the head from the moment it starts."""
        context = self._context
        self._later = context.free_capacity(self._base.used)
        self._later.take(self._head.session_id, self.reservation.kernels)
        both = _CombinedCapacity(context.snapshot, context.policy, now=self._now, later=self._later)
        self._placer = context.placer(both, like=self._placer_now)


class _CombinedCapacity(FreeCapacity):
    """Per device, the larger of what is held now and what is held once the head has started."""

    def __init__(self, snapshot: Snapshot, policy: Policy, *, now: FreeCapacity, later: FreeCapacity) -> None:
        used = dict(now.used)
        for node_id in list(compress(later.used, map(is_not, map(used.get, later.used), later.used.values()))):
            held, held_now = later.used[node_id], used.get(node_id)
            used[node_id] = held if held_now is None else larger_of(held_now, held)
        super().__init__(replace(snapshot, used=used, holders={}), policy, cache=now.cache)
        self._now = now
        self._later = later

    def take(self, session_id: SessionId, kernels: Sequence[KernelPlacement]) -> None:  # noqa: ARG002 # see `FreeCapacity`
        """Update from the two capacities, which have counted the kernels already."""
        for node_id in dict.fromkeys(kernel.node_id for kernel in kernels):
            self._used[node_id] = larger_of(self._now.used_on(node_id), self._later.used_on(node_id))


class PoolHead:
    """The rows of one pool that did not fit, and the reservation of the first of them that can get one, the head.

    Agents are in one pool each, so a head delays rows of its own pool only.
    """

    def __init__(
        self, capacity: FreeCapacity, context: PassContext, *, ends: Callable[[], PlannedEnds], placer: Placer
    ) -> None:
        """See `reserve` for the arguments."""
        self.blocked: list[PendingRow] = []
        """The first row of each kind that did not fit, in order."""
        self.window: BackfillWindow | None = None
        """What may start beside the head; None until a row behind it fits."""
        self._capacity, self._ends, self._context, self._placer = capacity, ends, context, placer
        self._start: HeadStart | None = None
        self._tried = 0  # number of blocked rows for which a reservation was tried

    def open_window(self) -> BackfillWindow | None:
        """The window beside the head; None without a head."""
        if self.window is None and self.reserve() is not None and self._start is not None:
            self.window = BackfillWindow(self._start, now=self._capacity, context=self._context, placer=self._placer)
        return self.window

    def reserve(self) -> Reservation | None:
        """The reservation of the head; None without a head."""
        while self._start is None and self._tried < len(self.blocked):
            head, context, placer = self.blocked[self._tried], self._context, self._placer
            self._start = reserve(head, capacity=self._capacity, ends=self._ends(), context=context, placer=placer)
            self._tried += 1
        if self.window is not None:
            return self.window.reservation
        return None if self._start is None else self._start.reservation


def reserve(
    head: PendingRow, *, capacity: FreeCapacity, ends: PlannedEnds, context: PassContext, placer: Placer
) -> HeadStart | None:
    """Reserve for the head: the earliest time at which it fits if sessions end as expected, and its devices then.

    Args:
        capacity: free now; `placer` has placed this pass's sessions on it.
        ends: of all sessions that hold devices in it.
    Returns:
        None if the head does not fit even after all sessions have ended.
    """
    expected = ExpectedEnds(ends, now_us=context.now_us)

    def fit(step: int) -> tuple[int, FreeCapacity, tuple[KernelPlacement, ...]] | None:
        release = expected.release(step)
        return fit_at(release.at_us, release.rows)

    def fit_at(at_us: int, ended: Sequence[RunningRow]) -> tuple[int, FreeCapacity, tuple[KernelPlacement, ...]] | None:
        base = context.free_capacity(used_without(ended, capacity=capacity))
        kernels = context.placer(base, like=placer, at_us=at_us).place(context.row_at(head, at_us))
        return (at_us, base, kernels) if len(kernels) == head.cluster_size else None

    # Steps that release less than the head lacks in total need not be tried.
    short = head.milli - capacity.free_milli()
    first = expected.first_step_releasing(short)
    if not context.calendar and _keeps_agents(head, expected, context=context):
        found = _search(fit, first=first, end=len(expected))
    else:
        # A later time may be worse than an earlier one, so each is tried.
        ends_us = () if context.calendar is None else context.calendar.ends_us()
        moments = moments_of(expected, first=first, ends_us=ends_us)
        found = next((fitting for at_us, ended in moments if (fitting := fit_at(at_us, ended)) is not None), None)
    if found is None:
        return None
    at_us, base, kernels = found
    reservation = Reservation(session_id=head.session_id, at_us=at_us, kernels=kernels)
    return HeadStart(head=context.row_at(head, at_us), reservation=reservation, base=base)


def _keeps_agents(head: PendingRow, expected: ExpectedEnds, *, context: PassContext) -> bool:
    """Whether the head may start on the same agents at all of these times: none that it may use leaves too early."""
    return not expected or context.row_at(head, expected.last_us()) is head


def moments_of(
    expected: ExpectedEnds, *, first: int, ends_us: Iterable[int]
) -> Iterator[tuple[int, Sequence[RunningRow]]]:
    """Times at which devices become free, in order, with all sessions that have ended by then.

    Args:
        first: the first step of `expected` that counts.
        ends_us: ends of bookings, sorted.
    """
    ended: Sequence[RunningRow] = () if not first else expected.release(first - 1).rows
    since_us = 0 if not first else expected.release(first - 1).at_us
    waiting = [at_us for at_us in ends_us if at_us > since_us]
    for step in range(first, len(expected)):
        release = expected.release(step)
        while waiting and waiting[0] < release.at_us:
            yield waiting.pop(0), ended
        ended = release.rows
        yield release.at_us, ended
    yield from ((at_us, ended) for at_us in waiting)


def _search(fit: Callable[[int], Found | None], *, first: int, end: int) -> Found | None:
    """The result of the first step that has one; steps are tried in growing strides, as it is mostly an early one."""
    low, stride = first, 1
    step, found = first, None
    while low < end:
        step = min(low + stride - 1, end - 1)
        found = fit(step)
        if found is not None:
            break
        low, stride = step + 1, stride * 2
    return None if found is None else earliest(fit, low, step, found)[1]


def earliest(fit: Callable[[int], Found | None], low: int, step: int, found: Found) -> tuple[int, Found]:
    """The first step from `low` on that fits, and its result; `found` is that of `step`, which fits."""
    while low < step:
        middle = (low + step) // 2
        earlier = fit(middle)
        if earlier is None:
            low = middle + 1
        else:
            step, found = middle, earlier
    return step, found


def used_without(rows: Iterable[RunningRow], *, capacity: FreeCapacity) -> dict[NodeId, Mapping[DeviceId, int]]:
    """Budget units held once `rows` have ended. Other nodes keep their mapping: caches go by identity."""
    agents = capacity.agent_index.by_id
    remaining: dict[NodeId, dict[DeviceId, int]] = {}
    for row in rows:
        for kernel in row.kernels:
            held = remaining.get(kernel.node_id)
            if held is None:
                held = remaining[kernel.node_id] = dict(capacity.used_on(kernel.node_id))
            devices = agents[kernel.agent_id].layout.devices if kernel.agent_id in agents else {}
            for device_id, amount in occupancy_on((kernel.spec,), devices).items():
                held[device_id] = max(held.get(device_id, 0) - amount, 0)
    return {**capacity.used, **remaining}
