"""Bookings.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.enums import BookingKind, BookingState, ImportedRowState


class BookedGpu(Struct, frozen=True, kw_only=True):
    """One GPU of a booking."""

    node_id: str
    """The node."""
    hostname: str
    """The node's hostname."""
    device_id: str
    """The GPU."""
    name: str
    """The GPU as its agent names it, like `cuda0`."""
    model: str
    """Its model; empty if the GPU is gone."""


class Booking(Struct, frozen=True, kw_only=True):
    """GPUs that are kept free for a window, or nodes under maintenance."""

    id: str
    """The booking's id."""
    name: str
    """Its name, unique among the open bookings of its owner."""
    kind: BookingKind
    """What it is for."""
    owner: str
    """The user who booked."""
    project: str
    """Its project, whose members may submit sessions into it."""
    pool: str
    """The pool of its GPUs."""
    state: BookingState
    """Its state."""
    starts_at: datetime
    """Start of the window."""
    ends_at: datetime
    """End of the window."""
    gpus: int
    """Number of whole GPUs; 0 for maintenance."""
    models: tuple[str, ...]
    """Patterns of their models; empty = any."""
    devices: tuple[BookedGpu, ...]
    """The GPUs that it holds."""
    nodes: tuple[str, ...]
    """Hostnames of the nodes under maintenance."""
    is_active: bool
    """Whether the window has begun and is not over."""
    no_show_after: float | None
    """Seconds after its start at which it is released if no session has used it; null = never."""
    used_at: datetime | None
    """When a session started in it for the first time."""
    series: str | None
    """Name shared by the bookings of a recurring one."""
    refusal: str | None
    """Why it, or its last extension, was refused."""
    held_back_gpu_hours: float
    """GPU-hours that it kept idle, charged to its owner; 0 until it ends."""
    created_at: datetime
    """When it was requested."""
    ended_at: datetime | None
    """When it was over; null while it is open."""
    sessions: tuple[str, ...]
    """Sessions in it that wait or run."""


class BookingEffect(Struct, frozen=True, kw_only=True):
    """What a booking would do that is not made yet."""

    refusal: str | None
    """Why it would be refused; null = it would be accepted."""
    delayed: tuple[str, ...]
    """Waiting sessions that would start later, the most delayed first; at most 20."""
    delayed_count: int
    """How many waiting sessions would start later."""
    delay_max: float | None
    """Seconds of the longest delay; null = there is none, or it is not known."""


class ImportReservationsInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A spreadsheet or calendar of bookings."""

    file_name: str
    """Name of the file, ending with .csv, .tsv, .xlsx or .ics."""
    content: str
    """The file, in base64; at most 1 MiB."""
    time_zone: str | None = None
    """Zone of times without one, like `Europe/Berlin`; null = UTC."""
    project: str | None = None
    """Project of rows that name none."""
    pool: str | None = None
    """Pool of rows that name none."""
    dry_run: bool = False
    """Only show what would become of each row."""


class ImportedRow(Struct, frozen=True, kw_only=True):
    """A row of a file of bookings."""

    row: int
    """The line of a spreadsheet, or the number of the event of a calendar."""
    text: str
    """The row as it was read, shortened."""
    state: ImportedRowState
    """What became of it, or would."""
    message: str
    """Why; empty = it is or would be booked as it is."""
    name: str | None
    """Name of the booking."""
    owner: str | None
    """For whom it is."""
    starts_at: datetime | None
    """Start of the window; null = not read."""
    ends_at: datetime | None
    """End of the window; null = not read."""
    gpus: int
    """Number of whole GPUs; 0 for maintenance, and for rows without a booking."""
    windows: int
    """Bookings that it makes: several if it is recurring."""


class ReserveInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A booking to request. Give `gpus`, `devices`, or, for maintenance, `nodes`."""

    name: str
    """A name of your choice, unique among your open bookings."""
    starts_at: datetime
    """Start of the window."""
    ends_at: datetime
    """End of the window."""
    gpus: int | None = None
    """Number of whole GPUs; null = as many as are named, else 1."""
    models: Sequence[str] | None = None
    """Allowed models: case-insensitive patterns with `*` and `?`; null = any."""
    devices: Sequence[str] | None = None
    """Named GPUs, by device id, or as `<node>/<device>` like `node1/cuda0`."""
    nodes: Sequence[str] | None = None
    """Nodes for maintenance, by hostname, agent or node id. For operators."""
    project: str | None = None
    """Project; null = the default project."""
    pool: str | None = None
    """Pool of agents; null = the default pool."""
    no_show_after: float | None = None
    """Seconds after the start at which an unused booking is released; null = 30 minutes."""
    repeats: str | None = None
    """A recurrence rule of RFC 5545, like `FREQ=WEEKLY;BYDAY=TU;UNTIL=20270301`; at most 200 windows."""
    time_zone: str | None = None
    """Zone in which the rule keeps the time of day, like `Europe/Berlin`; null = UTC."""
