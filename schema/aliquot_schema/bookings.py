"""Bookings: GPUs of a user, or nodes under maintenance, for a window of time. Times are microseconds UTC."""

from typing import Final, NamedTuple

from msgspec import Struct

from aliquot_schema.enums import DescribedStr
from aliquot_schema.ids import BookingId, DeviceId, NodeId, PoolId, ProjectId, UserId
from aliquot_schema.sessions import DEFAULT_POOL, DEFAULT_PROJECT

NO_SHOW_AFTER_MS: Final = 30 * 60_000
"""Default of `Booking.no_show_after_ms`."""


class BookingKind(DescribedStr):
    """What a booking is for."""

    USE = "use", "GPUs for the sessions of its owner and project."
    MAINTENANCE = "maintenance", "Whole nodes, on which nothing runs during the window."


class BookingState(DescribedStr):
    """State of a booking."""

    REQUESTED = "requested", "The next scheduling pass accepts or refuses it."
    BOOKED = "booked", "Its devices are kept free for its window."
    REFUSED = "refused", "It does not fit; `refusal` says why."
    CANCELED = "canceled", "Canceled before its window."
    GIVEN_BACK = "given_back", "Ended early by its owner or an operator."
    NO_SHOW = "no_show", "No session used it in the first `no_show_after` of its window, so its devices were released."
    ENDED = "ended", "Its window is over."


OPEN_STATES: Final = frozenset({BookingState.REQUESTED, BookingState.BOOKED})


class BookedDevice(NamedTuple):
    """One accelerator of one node."""

    node_id: NodeId
    device_id: DeviceId


class Booking(Struct, frozen=True, kw_only=True):
    """A booking as the store holds it."""

    id: BookingId
    version: int = 0
    kind: BookingKind = BookingKind.USE
    name: str
    """Unique among the open bookings of its owner; sessions are submitted into it by this name or by its id."""
    owner: UserId
    project: ProjectId = DEFAULT_PROJECT
    pool: PoolId = DEFAULT_POOL
    gpus: int = 0
    """Whole accelerators; 0 for maintenance."""
    models: tuple[str, ...] = ()
    """Patterns that the models must match; empty = any."""
    wanted: tuple[BookedDevice, ...] = ()
    """The devices that were named; empty = any `gpus` devices."""
    nodes: tuple[NodeId, ...] = ()
    """Nodes under maintenance."""
    starts_us: int
    ends_us: int
    state: BookingState = BookingState.REQUESTED
    devices: tuple[BookedDevice, ...] = ()
    """The devices that it holds, chosen by the scheduling pass; another one replaces a device that is lost."""
    extends_to_us: int | None = None
    """A later end that was asked for and not decided yet."""
    no_show_after_ms: int | None = NO_SHOW_AFTER_MS
    """How long after its start it is released if no session has used it; None = never."""
    used_us: int | None = None
    """When a session started in it for the first time."""
    series: str | None = None
    """Name shared by the bookings of a recurring one."""
    created_us: int
    refusal: str | None = None
    """Why it, or its last extension, was refused."""
    covered: int = 0
    """What its sessions held of its devices and have released, in milli of a device x milliseconds, by price."""
    held_back: int = 0
    """What it kept idle from its start to its end, in the same unit; charged to its owner when it ends."""
    ended_us: int | None = None
    """When it was refused, canceled, given back or released, or its window was over."""

    @property
    def is_open(self) -> bool:
        """Whether it is requested or booked."""
        return self.state in OPEN_STATES

    def is_active(self, now_us: int) -> bool:
        """Whether it is booked, and its window has begun and is not over."""
        return self.state is BookingState.BOOKED and self.starts_us <= now_us < self.ends_us

    def overlaps(self, starts_us: int, ends_us: int) -> bool:
        """Whether its window has a moment in common with [starts_us, ends_us)."""
        return self.starts_us < ends_us and starts_us < self.ends_us
