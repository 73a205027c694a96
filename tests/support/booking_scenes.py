"""Builders of bookings, for tests of the decision."""

from typing import Any

from aliquot.core.model.plan import Plan
from aliquot.core.model.snapshot import Snapshot
from aliquot.core.scheduler.bookings import bookings_after
from aliquot_schema.bookings import BookedDevice, Booking, BookingState
from aliquot_schema.ids import BookingId, DeviceId, NodeId, UserId
from core_cluster import NOW_US

MINUTE_US = 60_000_000


def booking(name: str, *, starts_min: int, lasts_min: int = 60, gpus: int = 1, **more: Any) -> Booking:
    """A requested booking that starts in `starts_min` minutes."""
    starts_us = NOW_US + starts_min * MINUTE_US
    fields = {"owner": UserId("a"), "created_us": 0, "version": 1} | more
    return Booking(
        id=BookingId(name),
        name=name,
        gpus=gpus,
        starts_us=starts_us,
        ends_us=starts_us + lasts_min * MINUTE_US,
        **fields,
    )


def booked(name: str, *devices: tuple[str, str], starts_min: int, lasts_min: int = 60, **more: Any) -> Booking:
    """An accepted booking of devices given as (node, device)."""
    held = tuple(BookedDevice(NodeId(node), DeviceId(device)) for node, device in devices)
    state = {"state": BookingState.BOOKED, "devices": held, "gpus": len(held)}
    return booking(name, starts_min=starts_min, lasts_min=lasts_min, **(state | more))


def outcome(plan: Plan, name: str) -> tuple[BookingState, list[tuple[str, str]], str | None]:
    """State, devices and refusal of a booking, after the pass that decided it."""
    (found,) = (one for one in plan.bookings if one.booking_id == name)
    return found.state, [(device.node_id, device.device_id) for device in found.devices], found.refusal


def after_pass(state: Snapshot, plan: Plan) -> dict[str, Booking]:
    """The open bookings after a pass, by name."""
    return {one.name: one for one in bookings_after(state, plan, now_us=NOW_US)}
