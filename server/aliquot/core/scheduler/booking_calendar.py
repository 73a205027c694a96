"""Booking calendar: which devices are closed to a session because others booked them.

A session may start on a device that others have booked if it has certainly left it when their window begins:

- its time limit ends it before, or
- it is preemptible, or was started in a booking of its own: it is then preempted as soon as a session of the booking
  waits for the device, or when maintenance begins.

Estimates do not count, because they end nothing. A session in a booking may use the devices of that booking alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.model.plan import KernelPlacement, devices_held
from aliquot.core.model.queue import IntArray, Queue
from aliquot.core.model.snapshot import AgentRow, PendingRow, PlacementConstraints, RunningRow
from aliquot_schema.bookings import BookedDevice, Booking, BookingKind, BookingState
from aliquot_schema.ids import BookingId, NodeId
from aliquot_schema.reasons import Evidence, Reason, Verdict
from aliquot_schema.resources.devices import DeviceHealth
from aliquot_schema.resources.slots import is_accelerator

NEVER_US: Final = 1 << 62


class Closure(Struct, frozen=True):
    """Nodes and devices that are closed, sorted."""

    nodes: tuple[NodeId, ...] = ()
    devices: tuple[BookedDevice, ...] = ()


OPEN: Final = Closure()


class BookingCalendar:
    """The accepted bookings of one pass."""

    def __init__(
        self,
        bookings: Iterable[Booking],
        *,
        agents: Sequence[AgentRow],
        awaited: Iterable[BookingId],
        now_us: int,
        grace_ms: int,
    ) -> None:
        """
        Args:
            bookings: those in state `booked` count, from now until their end.
            awaited: bookings that sessions in the queue wait for.
            grace_ms: how long before maintenance its nodes are cleared of preemptible sessions.
        """
        booked = [one for one in bookings if one.state is BookingState.BOOKED and one.ends_us > now_us]
        self._booked = sorted(booked, key=lambda booking: (booking.starts_us, booking.id))
        self._by_id = {booking.id: booking for booking in self._booked}
        self._agents = agents
        self._awaited = frozenset(awaited)
        self._now_us = now_us
        self._grace_us = 1000 * grace_ms
        self._closures: dict[tuple[BookingId | None, tuple[BookingId, ...]], Closure] = {}
        self._wheres: dict[tuple[PlacementConstraints, Closure], PlacementConstraints] = {}

    def __bool__(self) -> bool:
        return bool(self._booked)

    def booking_of(self, row: PendingRow | RunningRow) -> Booking | None:
        """The booking that a session uses; None without one, or when it is over."""
        return None if row.booking is None else self._by_id.get(row.booking)

    def ends_us(self) -> list[int]:
        """When booked devices become free, sorted."""
        return sorted({booking.ends_us for booking in self._booked})

    def open_to(self, row: PendingRow, *, at_us: int) -> PendingRow:
        """The row, not to be placed on what is closed to it if it starts at `at_us`."""
        if not self._booked:
            return row
        closure = self.closure(row, at_us=at_us)
        if closure is OPEN:
            return row
        key = row.where, closure
        if key not in self._wheres:
            self._wheres[key] = replace(row.where, closed_nodes=closure.nodes, closed_devices=closure.devices)
        return replace(row, where=self._wheres[key])

    def closure(self, row: PendingRow, *, at_us: int) -> Closure:
        """What is closed to a row that starts at `at_us`; equal closures are the same object."""
        own = self.booking_of(row)
        others = tuple(booking.id for booking in self.in_the_way(row, at_us=at_us))
        if own is None and not others:
            return OPEN
        key = None if own is None else own.id, others
        if key not in self._closures:
            self._closures[key] = self._closure(own, [self._by_id[name] for name in others])
        return self._closures[key]

    def in_the_way(self, row: PendingRow, *, at_us: int) -> list[Booking]:
        """Bookings of others whose devices a row may not use if it starts at `at_us`, the earliest first."""
        until_us = NEVER_US if row.limit_ms is None else at_us + 1000 * row.limit_ms
        own = self.booking_of(row)
        returns = row.is_preemptible or own is not None
        found = []
        for booking in self._booked:
            if booking.starts_us >= until_us:
                break
            if own is not booking and booking.ends_us > at_us and not (returns and self._lends(booking, at_us=at_us)):
                found.append(booking)
        return found

    def first_in_the_way(self, row: PendingRow, kernels: Iterable[KernelPlacement]) -> Booking | None:
        """The first booking that keeps a row from starting on these devices now."""
        held = devices_held(kernels)
        nodes = {kernel.node_id for kernel in kernels}
        for booking in self.in_the_way(row, at_us=self._now_us):
            if not held.isdisjoint(booking.devices) or not nodes.isdisjoint(booking.nodes):
                return booking
        return self.booking_of(row)

    def verdict(self, row: PendingRow, kernels: Iterable[KernelPlacement]) -> Verdict | None:
        """The verdict on a row that would start on these devices if nothing were booked; None if no booking is why."""
        booking = self.first_in_the_way(row, kernels)
        if booking is None:
            return None
        if booking.id == row.booking:
            return Verdict(reason=Reason.BOOKED, evidence=self._shortage(booking))
        until_us = booking.starts_us if booking.starts_us > self._now_us else booking.ends_us
        return Verdict(reason=Reason.BOOKED, evidence=Evidence(booking=booking.name, until_us=until_us))

    def _shortage(self, booking: Booking) -> Evidence:
        """Evidence that a booking has too little free, with its devices and agents that are not in service."""
        holders: dict[BookedDevice, list[AgentRow]] = {device: [] for device in booking.devices}
        for agent in self._agents:
            for device in agent.layout.devices.values():
                if device.health is DeviceHealth.HEALTHY:
                    holders.get(BookedDevice(agent.node_id, device.id), []).append(agent)
        closed = [agent.id for found in holders.values() if not any(one.is_open for one in found) for agent in found]
        return Evidence(
            booking=booking.name,
            agents=tuple(dict.fromkeys(closed)),
            devices=tuple(device.device_id for device, found in holders.items() if not found),
        )

    def kinds(self, queue: Queue, kinds: IntArray) -> IntArray:
        """[rows] kinds of rows, with those of different closures told apart."""
        if not self._booked:
            return kinds
        numbers: dict[int, int] = {id(OPEN): 0}
        of_row = [numbers.setdefault(id(self.closure(row, at_us=self._now_us)), len(numbers)) for row in queue]
        _, found = np.unique(kinds * len(numbers) + np.array(of_row, dtype=np.int64), return_inverse=True)
        return found.astype(np.int64).reshape(-1)

    def guests(self, booking: Booking, running: Iterable[RunningRow]) -> list[RunningRow]:
        """Sessions on the devices of a booking that leave when it needs them."""
        devices, nodes = frozenset(booking.devices), frozenset(booking.nodes)
        return [
            row
            for row in running
            if (row.is_preemptible or row.booking is not None)
            and row.booking != booking.id
            and uses(row, devices=devices, nodes=nodes)
        ]

    def cleared(self, running: Iterable[RunningRow]) -> list[tuple[RunningRow, Booking]]:
        """Sessions to preempt now for maintenance that begins within the grace."""
        due = [
            booking
            for booking in self._booked
            if booking.kind is BookingKind.MAINTENANCE and booking.starts_us - self._grace_us <= self._now_us
        ]
        if not due:
            return []
        running = tuple(running)
        return [(row, booking) for booking in due for row in self.guests(booking, running)]

    def wake_at_us(self) -> int | None:
        """When the calendar next changes what a pass decides; None = never."""
        times: list[int] = []
        for booking in self._booked:
            times += [booking.starts_us, booking.ends_us]
            if booking.kind is BookingKind.MAINTENANCE:
                times.append(booking.starts_us - self._grace_us)
            elif booking.used_us is None and booking.no_show_after_ms is not None:
                times.append(booking.starts_us + 1000 * booking.no_show_after_ms)
        return min((at_us for at_us in times if at_us > self._now_us), default=None)

    def _lends(self, booking: Booking, *, at_us: int) -> bool:
        """Whether sessions that leave on request may start on the devices of a booking at `at_us`."""
        if booking.kind is BookingKind.MAINTENANCE:
            return at_us < booking.starts_us - self._grace_us
        if at_us > self._now_us:
            return at_us < booking.starts_us
        return at_us < booking.starts_us or booking.id not in self._awaited

    def _closure(self, own: Booking | None, others: Sequence[Booking]) -> Closure:
        nodes = {node_id for booking in others for node_id in booking.nodes}
        devices = {device for booking in others for device in booking.devices}
        if own is not None:
            devices |= self._accelerators - frozenset(own.devices)
        devices |= {part for part, whole in self._slices.items() if whole in devices}
        return Closure(tuple(sorted(nodes)), tuple(sorted(devices)))

    @cached_property
    def _accelerators(self) -> frozenset[BookedDevice]:
        return frozenset(
            BookedDevice(agent.node_id, device.id)
            for agent in self._agents
            for device in agent.layout.devices.values()
            if any(map(is_accelerator, device.costs))
        )

    @cached_property
    def _slices(self) -> Mapping[BookedDevice, BookedDevice]:
        """The device that each slice is a part of."""
        return {
            BookedDevice(agent.node_id, device.id): BookedDevice(agent.node_id, device.parent)
            for agent in self._agents
            for device in agent.layout.devices.values()
            if device.parent is not None
        }


def uses(row: RunningRow, *, devices: frozenset[BookedDevice], nodes: frozenset[NodeId] = frozenset()) -> bool:
    """Whether a session holds (a part of) one of these devices, or anything on one of these nodes."""
    return any(
        kernel.node_id in nodes
        or any((kernel.node_id, device_id) in devices for given in kernel.spec.values() for device_id in given)
        for kernel in row.kernels
    )
