"""Read models of bookings."""

from datetime import datetime

from msgspec import Struct

from aliquot_schema.bookings import BookingKind, BookingState
from aliquot_schema.enums import DescribedStr


class BookedGpuView(Struct, frozen=True, kw_only=True):
    """One GPU of a booking."""

    node_id: str
    hostname: str
    device_id: str
    name: str
    """As its agent names it: `cuda0`."""
    model: str


class BookingView(Struct, frozen=True, kw_only=True):
    """A booking. Times are aware."""

    id: str
    name: str
    kind: BookingKind
    owner: str
    project: str
    pool: str
    state: BookingState
    starts_at: datetime
    ends_at: datetime
    gpus: int
    models: tuple[str, ...]
    devices: tuple[BookedGpuView, ...]
    nodes: tuple[str, ...]
    """Hostnames of nodes under maintenance."""
    is_active: bool
    """Whether its window has begun and is not over."""
    no_show_after: float | None
    """Seconds."""
    used_at: datetime | None
    series: str | None
    refusal: str | None
    held_back_gpu_hours: float
    """What it kept idle, once it has ended."""
    created_at: datetime
    ended_at: datetime | None
    sessions: tuple[str, ...]
    """Sessions in it that wait or run."""


class BookingChanged(Struct, frozen=True, kw_only=True):
    """Result of a mutation of a booking."""

    booking: BookingView
    revision: int
    others: tuple[BookingView, ...] = ()
    """The other bookings of a recurring one, refused ones included."""


class BookingEffectView(Struct, frozen=True, kw_only=True):
    """What a booking would do that is not made yet."""

    refusal: str | None
    """Why it would be refused; None = it would be accepted."""
    delayed: tuple[str, ...]
    """Waiting sessions that would start later, the most delayed first; at most 20."""
    delayed_count: int
    delay_max: float | None
    """Seconds of the longest delay; None = there is none, or it is not known."""


class ImportedRowState(DescribedStr):
    """What became of a row of a file, or would."""

    BOOKED = "booked", "It is booked."
    BOOKABLE = "bookable", "It would be booked; nothing is stored in a dry run."
    KNOWN = "known", "The same booking exists already."
    REFUSED = "refused", "Its GPUs cannot be free then, or a quota does not allow it."
    WRONG = "wrong", "The row cannot be read, or a value is wrong."


class ImportedRowView(Struct, frozen=True, kw_only=True):
    """A row of a file of bookings."""

    row: int
    text: str
    state: ImportedRowState
    message: str
    """Why, as a sentence; empty = it is or would be booked as it is."""
    name: str | None
    owner: str | None
    starts_at: datetime | None
    ends_at: datetime | None
    gpus: int
    windows: int
    """Bookings that it makes: several if it is recurring, 0 if none."""


class BookingImportView(Struct, frozen=True, kw_only=True):
    """Result of an import, or of its dry run."""

    rows: tuple[ImportedRowView, ...]
    dry_run: bool
    revision: int
