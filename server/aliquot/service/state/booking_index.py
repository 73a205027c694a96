"""Bookings in memory: open ones, and the newest of those that are over."""

from collections.abc import Iterable
from typing import Final

from aliquot_schema.bookings import Booking
from aliquot_schema.ids import BookingId
from aliquot_schema.requests import Caller, Role

ENDED_KEPT: Final = 1_000


class BookingIndex:
    """Bookings by id."""

    def __init__(self) -> None:
        self._open: dict[BookingId, Booking] = {}
        self._ended: dict[BookingId, Booking] = {}
        self.open: tuple[Booking, ...] = ()
        """All open bookings; the same object until one changes."""

    def put(self, booking: Booking) -> None:
        """Store the new state of a booking."""
        if booking.is_open:
            self._open[booking.id] = booking
        else:
            self._open.pop(booking.id, None)
            self._ended[booking.id] = booking
            while len(self._ended) > ENDED_KEPT:
                del self._ended[next(iter(self._ended))]
        self.open = tuple(self._open.values())

    def find(self, booking_id: str) -> Booking | None:
        """The booking of an id; None if it is unknown or was over long ago."""
        name = BookingId(booking_id)
        return self._open.get(name) or self._ended.get(name)

    def named(self, name: str, *, caller: Caller) -> Booking | None:
        """The open booking of an id or name: the caller's own, else one of the caller's projects, for operators of
        anyone; None without one, or if several people have one of that name.

        The name of a recurring one means the earliest that is open.
        """
        known = sorted(self.open, key=lambda one: (one.starts_us, one.id))
        found = [one for one in known if name in (one.id, one.name)] or [one for one in known if one.series == name]
        mine = [one for one in found if one.id == name or one.owner == caller.user]
        if mine:
            return mine[0]
        shared = [one for one in found if caller.role >= Role.OPERATOR or one.project in caller.projects]
        return shared[0] if len({one.owner for one in shared}) == 1 else None

    def ended(self) -> Iterable[Booking]:
        """The newest bookings that are over."""
        return self._ended.values()
