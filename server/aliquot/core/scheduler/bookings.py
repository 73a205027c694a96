"""Bookings: what a pass decides about them before it places sessions.

- A requested booking is accepted if its devices can be free for its window: no other booking has them then, and what
  runs on them has certainly left. The quotas of its owner and project hold for everything booked at any moment.
- An accepted one ends with its window, or when no session has used it for `no_show_after_ms` since its start.
- A device that is lost is replaced by another one that fits. So is one whose agent takes no sessions, once the window
  has begun and a session waits in the booking.
- Once its window has begun, a booking is accepted only with devices of agents that take sessions.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from msgspec.structs import replace

from aliquot.core.allocation.options import is_of_model
from aliquot.core.model.plan import BookingDecision, Plan, devices_held
from aliquot.core.model.snapshot import RunningRow, Snapshot
from aliquot.core.quota import booked_amounts, limits, quota_ids_for, text_of
from aliquot.core.scheduler.booking_calendar import uses
from aliquot.core.scheduler.reason_text import moment_text
from aliquot_schema.bookings import BookedDevice, Booking, BookingKind, BookingState
from aliquot_schema.ids import BookingId, NaturalKey, NodeId, SlotName, natural_key
from aliquot_schema.quotas import quota_holder
from aliquot_schema.resources.devices import DeviceHealth
from aliquot_schema.resources.slots import amount_text, is_accelerator


def decided_bookings(snapshot: Snapshot, *, now_us: int) -> tuple[tuple[Booking, ...], tuple[BookingDecision, ...]]:
    """The open bookings after this pass, and what it decided about them.

    Ends come first, then replacements of lost devices, extensions, and requests in the order of their creation.
    """
    if not snapshot.bookings:
        return (), ()
    booking_pass = _BookingPass(snapshot, now_us=now_us)
    standing = [one for one in snapshot.bookings if one.state is BookingState.BOOKED]
    for booking in sorted(standing, key=lambda one: (one.starts_us, one.id)):
        booking_pass.end_if_over(booking)
    for booking in booking_pass.booked():
        booking_pass.replace_lost(booking)
    for booking in booking_pass.booked():
        if booking.extends_to_us is not None:
            booking_pass.extend(booking, to_us=booking.extends_to_us)
    requested = [one for one in snapshot.bookings if one.state is BookingState.REQUESTED]
    for booking in sorted(requested, key=lambda one: (one.created_us, one.starts_us, one.id)):
        booking_pass.admit(booking)
    return tuple(booking_pass.booked()), tuple(booking_pass.decisions.values())


def bookings_after(snapshot: Snapshot, plan: Plan, *, now_us: int) -> tuple[Booking, ...]:
    """The open bookings of a snapshot once a plan for it has been carried out."""
    if not snapshot.bookings:
        return ()
    decided = {one.booking_id: one for one in plan.bookings}
    placed = {placement.session_id for placement in plan.placements}
    used = {row.booking for row in snapshot.queue if row.session_id in placed}
    after = [with_decision(one, decided[one.id]) if one.id in decided else one for one in snapshot.bookings]
    return tuple(
        replace(one, used_us=now_us) if one.id in used and one.used_us is None else one for one in after if one.is_open
    )


def with_decision(booking: Booking, decision: BookingDecision) -> Booking:
    """A booking as a pass decided, with its open extension if it had one; `ended_us` is left to the caller."""
    return replace(
        booking,
        state=decision.state,
        devices=decision.devices,
        ends_us=decision.ends_us,
        extends_to_us=None,
        refusal=decision.refusal,
    )


class _BookingPass:
    """The bookings of one pass while it decides about them."""

    def __init__(self, snapshot: Snapshot, *, now_us: int) -> None:
        self._snapshot = snapshot
        self._now_us = now_us
        self._open = {one.id: one for one in snapshot.bookings if one.state is BookingState.BOOKED}
        self.decisions: dict[BookingId, BookingDecision] = {}
        """One of each booking: what was decided last holds all that was decided before."""

    def booked(self) -> list[Booking]:
        """Accepted bookings, the earliest first."""
        return sorted(self._open.values(), key=lambda one: (one.starts_us, one.id))

    def end_if_over(self, booking: Booking) -> None:
        """End a booking whose window is over, or that no session has used in time."""
        if booking.ends_us <= self._now_us:
            self._close(booking, BookingState.ENDED)
        elif self._is_no_show(booking):
            self._close(booking, BookingState.NO_SHOW)

    def replace_lost(self, booking: Booking) -> None:
        """Give a booking other devices for those that are lost, as far as there are any."""
        if booking.wanted or booking.kind is BookingKind.MAINTENANCE:
            return
        unused = self._unused(booking)
        kept = [device for device in booking.devices if device in self._healthy and device not in unused]
        lacking = booking.gpus - len(kept)
        if lacking <= 0:
            return
        free = [device for device in self._free(booking) if device not in kept]
        found = [*kept, *self._chosen(free, count=min(lacking, len(free)))]
        gone = [device for device in booking.devices if device not in kept]
        devices = tuple(sorted([*found, *gone[: booking.gpus - len(found)]], key=_by_name))
        if devices != booking.devices:
            self._decide(replace(booking, devices=devices))

    def extend(self, booking: Booking, *, to_us: int) -> None:
        """Extend a booking if its devices are free until then."""
        longer = replace(booking, ends_us=to_us, extends_to_us=None)
        tail = replace(longer, starts_us=max(booking.ends_us, self._now_us))
        refusal = self._conflict(tail, is_extension=True) or self._over_quota(tail)
        if refusal is None:
            self._decide(replace(longer, refusal=None))
        else:
            self._decide(replace(booking, extends_to_us=None, refusal=refusal))

    def admit(self, booking: Booking) -> None:
        """Accept or refuse a request."""
        if booking.ends_us <= self._now_us:
            self._close(booking, BookingState.REFUSED, refusal="Its window is over")
            return
        refusal = self._over_quota(booking)
        devices: Sequence[BookedDevice] = ()
        if refusal is None and booking.kind is BookingKind.MAINTENANCE:
            refusal = self._conflict(booking)
        elif refusal is None and booking.wanted:
            devices, refusal = booking.wanted, self._conflict(replace(booking, devices=booking.wanted))
        elif refusal is None:
            free = self._free(booking)
            devices = self._chosen(free, count=booking.gpus)
            if len(devices) < booking.gpus:
                refusal = self._too_few(booking, free=len(free))
        if refusal is None:
            chosen = tuple(sorted(devices, key=_by_name))
            self._decide(replace(booking, state=BookingState.BOOKED, devices=chosen))
        else:
            self._close(booking, BookingState.REFUSED, refusal=refusal)

    def _is_no_show(self, booking: Booking) -> bool:
        if booking.kind is BookingKind.MAINTENANCE or booking.no_show_after_ms is None or booking.used_us is not None:
            return False
        is_due = booking.starts_us + 1000 * booking.no_show_after_ms <= self._now_us
        return is_due and booking.id not in self._in_use

    def _decide(self, booking: Booking) -> None:
        self._open[booking.id] = booking
        self.decisions[booking.id] = BookingDecision(
            booking_id=booking.id,
            version=booking.version,
            state=booking.state,
            devices=booking.devices,
            ends_us=booking.ends_us,
            refusal=booking.refusal,
        )

    def _close(self, booking: Booking, state: BookingState, *, refusal: str | None = None) -> None:
        self._decide(replace(booking, state=state, refusal=refusal))
        del self._open[booking.id]

    @cached_property
    def _in_use(self) -> frozenset[BookingId]:
        """Bookings with a session that runs or waits."""
        running = (row.booking for row in self._snapshot.running)
        waiting = (row.booking for row in self._snapshot.queue)
        return frozenset(name for name in (*running, *waiting) if name is not None)

    def _has_begun(self, booking: Booking) -> bool:
        return booking.starts_us <= self._now_us

    def _unused(self, booking: Booking) -> frozenset[BookedDevice]:
        """Devices that a booking needs now and cannot use, because their agents take no sessions."""
        away = frozenset(booking.devices) - self._in_service
        if (
            not away
            or not self._has_begun(booking)
            or not any(row.booking == booking.id for row in self._snapshot.queue)
        ):
            return frozenset()
        own = [row for row in self._snapshot.running if row.booking == booking.id]
        return frozenset(device for device in away if not any(uses(row, devices=frozenset([device])) for row in own))

    @cached_property
    def _in_service(self) -> frozenset[BookedDevice]:
        """Devices of agents that take sessions."""
        ready = (agent for agent in self._snapshot.agents if agent.is_open)
        return frozenset(
            BookedDevice(agent.node_id, device_id) for agent in ready for device_id in agent.layout.devices
        )

    @cached_property
    def _healthy(self) -> Mapping[BookedDevice, str]:
        """The model of every whole accelerator that is present, healthy and here to stay, in natural order."""
        return {device: model for agents in self._by_pool.values() for device, model in agents.items()}

    @cached_property
    def _by_pool(self) -> Mapping[str, Mapping[BookedDevice, str]]:
        found: dict[str, dict[BookedDevice, str]] = {}
        staying = (agent for agent in self._snapshot.agents if not agent.is_spot and agent.until_us is None)
        for agent in sorted(staying, key=lambda one: natural_key(one.id)):
            devices = found.setdefault(agent.pool, {})
            split = {device.parent for device in agent.layout.devices.values()}
            for device in agent.layout.devices.values():
                is_whole = device.parent is None and device.id not in split
                if is_whole and any(map(is_accelerator, device.costs)) and device.health is DeviceHealth.HEALTHY:
                    devices[BookedDevice(agent.node_id, device.id)] = device.model
        return found

    def _free(self, booking: Booking) -> list[BookedDevice]:
        """Devices that a booking may have for its window."""
        taken = self._taken(booking)
        return [
            device
            for device, model in self._by_pool.get(booking.pool, {}).items()
            if device not in taken and is_of_model(model, booking.models)
            if device in self._in_service or not self._has_begun(booking)
        ]

    def _taken(self, booking: Booking) -> frozenset[BookedDevice]:
        """Devices that other bookings, or sessions, may still have in the window of a booking."""
        found: set[BookedDevice] = set()
        for other in self._others(booking):
            found.update(self._devices_of(other))
        for row in self._staying(booking):
            found.update(devices_held(row.kernels))
        return frozenset(found)

    def _devices_of(self, booking: Booking) -> set[BookedDevice]:
        """Devices that a booking takes, those of nodes under maintenance included."""
        return {*booking.devices, *(device for device in self._healthy if device.node_id in booking.nodes)}

    def _others(self, booking: Booking) -> list[Booking]:
        """Other accepted bookings whose windows overlap that of a booking."""
        found = [one for one in self.booked() if one.overlaps(booking.starts_us, booking.ends_us)]
        return [one for one in found if one.id != booking.id]

    def _staying(self, booking: Booking) -> list[RunningRow]:
        """Sessions that may still run at the start of a booking and need not leave for it, by their ids."""
        staying = (row for row in self._snapshot.running if not self._leaves(row, booking))
        return sorted(staying, key=lambda row: row.session_id)

    def _leaves(self, row: RunningRow, booking: Booking) -> bool:
        if row.booking == booking.id or row.is_preemptible or row.is_leaving:
            return True
        if row.booking is not None:
            own = self._open.get(row.booking)
            return own is None or own.ends_us <= booking.starts_us
        return row.limit_us is not None and row.limit_us <= booking.starts_us

    def _chosen(self, free: Sequence[BookedDevice], *, count: int) -> list[BookedDevice]:
        """Devices for a booking: on the node with the fewest that suffice, else on as few nodes as possible; those of
        agents that take sessions, if they suffice."""
        ready = [device for device in free if device in self._in_service]
        free = ready if len(ready) >= count else free
        by_node: dict[NodeId, list[BookedDevice]] = {}
        for device in free:
            by_node.setdefault(device.node_id, []).append(device)
        found: list[BookedDevice] = []
        while by_node and len(found) < count:
            left = count - len(found)
            enough = [node_id for node_id, devices in by_node.items() if len(devices) >= left]
            if enough:
                node_id = min(enough, key=lambda name: (len(by_node[name]), natural_key(name)))
            else:
                node_id = min(by_node, key=lambda name: (-len(by_node[name]), natural_key(name)))
            found += by_node.pop(node_id)[:left]
        return found

    def _conflict(self, booking: Booking, *, is_extension: bool = False) -> str | None:
        """Why the devices or nodes of a booking cannot be free for its window; None if they can.

        Args:
            is_extension: whether the booking has its devices already, so that they need not be in service.
        """
        devices, nodes = frozenset(booking.devices), frozenset(booking.nodes)
        usable = self._healthy.keys() & self._in_service if self._has_begun(booking) else self._healthy.keys()
        missing = [] if is_extension else [device for device in booking.devices if device not in usable]
        if missing:
            return f"{missing[0].device_id} on node {missing[0].node_id} is not in service"
        for other in self._others(booking):
            if _meet(other, devices=devices, nodes=nodes):
                return f"{_what(booking, other)} booked by {other.owner} {window_text(other)} ({other.name})"
        for row in self._staying(booking):
            if uses(row, devices=devices, nodes=nodes):
                advice = "Book a later window, or ask its owner to end it"
                return f"Session {row.session_id} of {row.owner} {_may_run(row)}. {advice}"
        return None

    def _too_few(self, booking: Booking, *, free: int) -> str:
        known = self._by_pool.get(booking.pool, {})
        suitable = frozenset(device for device, model in known.items() if is_of_model(model, booking.models))
        kind = f" of model {' or '.join(booking.models)}" if booking.models else ""
        if len(suitable) < booking.gpus:
            return f"Pool {booking.pool} has {_gpus(len(suitable))}{kind}, and {booking.gpus} were asked for"
        booked = [one for one in self._others(booking) if not suitable.isdisjoint(self._devices_of(one))]
        others = [f"{one.name} of {one.owner} {window_text(one)}" for one in booked]
        holding = [row for row in self._staying(booking) if uses(row, devices=suitable)]
        staying = [f"session {row.session_id} of {row.owner}, which {_may_run(row)}" for row in holding]
        away = sorted({agent.id for agent in self._snapshot.agents if agent.pool == booking.pool and not agent.is_open})
        closed = [f"{name}, which takes no sessions now" for name in away] if self._has_begun(booking) else []
        who = "; ".join([*closed, *others, *staying][:3])
        held = f". In the way: {who}" if who else ""
        return f"{_gpus(free)}{kind} can be free for the whole window, and {booking.gpus} were asked for{held}"

    def _over_quota(self, booking: Booking) -> str | None:
        """Why a booking would exceed a quota together with others at some moment of its window; None if it would not.

        The devices of an ordinary request are not chosen yet, so they count as `gpus` whole devices.
        """
        if booking.kind is BookingKind.MAINTENANCE or not self._snapshot.quotas:
            return None
        need = self._amounts(booking)
        for name in quota_ids_for(booking.owner, booking.project):
            quota = self._snapshot.quotas.get(name)
            if quota is None:
                continue
            under = [one for one in self._others(booking) if name in quota_ids_for(one.owner, one.project)]
            for slot, limit in limits(quota.max_slots).items():
                if slot not in need:
                    continue
                moments = [booking.starts_us, *(one.starts_us for one in under if one.starts_us > booking.starts_us)]
                peak = max(
                    sum(self._amounts(one).get(slot, 0) for one in under if one.starts_us <= at_us < one.ends_us)
                    for at_us in moments
                )
                if peak + need[slot] > limit:
                    device = SlotName(slot.replace(".shares", ".device"))
                    most, booked = (amount_text(device, text_of(device, amount)) for amount in (limit, peak))
                    return f"{quota_holder(name)} may hold {most}, and has booked {booked} in this window already"
        return None

    def _amounts(self, booking: Booking) -> Mapping[SlotName, int]:
        devices = booking.devices or booking.wanted
        if not devices:
            matching = [d for d, model in self._healthy.items() if is_of_model(model, booking.models)]
            devices = tuple(matching[: booking.gpus])
        return booked_amounts(devices, agents=self._snapshot.agents)


def _by_name(device: BookedDevice) -> tuple[NaturalKey, NaturalKey]:
    return natural_key(device.node_id), natural_key(device.device_id)


def _meet(other: Booking, *, devices: frozenset[BookedDevice], nodes: frozenset[NodeId]) -> bool:
    on_nodes = {device.node_id for device in devices} | nodes
    other_on = {device.node_id for device in other.devices}
    return (
        not devices.isdisjoint(other.devices) or not on_nodes.isdisjoint(other.nodes) or not nodes.isdisjoint(other_on)
    )


def _what(booking: Booking, other: Booking) -> str:
    shared = sorted(frozenset(booking.devices) & frozenset(other.devices), key=_by_name)
    if shared:
        return f"{shared[0].device_id} on node {shared[0].node_id} is"
    nodes = sorted({*booking.nodes, *other.nodes})
    return f"Node {nodes[0]} is, wholly or in part,"


def _may_run(row: RunningRow) -> str:
    return "has no time limit" if row.limit_us is None else f"may run until {moment_text(row.limit_us)}"


def window_text(booking: Booking) -> str:
    """The window of a booking, in UTC."""
    return f"from {moment_text(booking.starts_us)} to {moment_text(booking.ends_us)}"


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
