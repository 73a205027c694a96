"""GraphQL API of bookings: GPUs for a window of time, and nodes for maintenance."""

from base64 import b64decode
from datetime import datetime
from typing import Annotated, Final

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema.errors import InvalidRequest, Unavailable
from aliquot_schema.graphql import errors
from aliquot_schema.graphql.context import BookingsPort, Context
from aliquot_schema.graphql.enums import BookingKind, BookingState, ImportedRowState
from aliquot_schema.graphql.errors import ALWAYS, answer, union
from aliquot_schema.graphql.fields import root_field
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.requests import BookingFile, NewBooking
from aliquot_schema.views.bookings import BookingChanged, BookingEffectView, BookingImportView, BookingView

_ON_RESERVE: Final = (*ALWAYS, errors.BookingRefused, errors.StateConflict, errors.NotFound)
_ON_GIVE_BACK: Final = (*ALWAYS, errors.StateConflict, errors.NotFound)


@strawberry.type(description="One GPU of a booking.")
class BookedGpu:
    node_id: strawberry.ID = strawberry.field(description="The node.")
    hostname: str = strawberry.field(description="The node's hostname.")
    device_id: strawberry.ID = strawberry.field(description="The GPU.")
    name: str = strawberry.field(description="The GPU as its agent names it, like `cuda0`.")
    model: str = strawberry.field(description="Its model; empty if the GPU is gone.")


@strawberry.type(description="GPUs that are kept free for a window, or nodes under maintenance.")
class Booking:
    id: strawberry.ID = strawberry.field(description="The booking's id.")
    name: str = strawberry.field(description="Its name, unique among the open bookings of its owner.")
    kind: BookingKind = strawberry.field(description="What it is for.")
    owner: str = strawberry.field(description="The user who booked.")
    project: str = strawberry.field(description="Its project, whose members may submit sessions into it.")
    pool: str = strawberry.field(description="The pool of its GPUs.")
    state: BookingState = strawberry.field(description="Its state.")
    starts_at: datetime = strawberry.field(description="Start of the window.")
    ends_at: datetime = strawberry.field(description="End of the window.")
    gpus: int = strawberry.field(description="Number of whole GPUs; 0 for maintenance.")
    models: list[str] = strawberry.field(description="Patterns of their models; empty = any.")
    devices: list[BookedGpu] = strawberry.field(description="The GPUs that it holds.")
    nodes: list[str] = strawberry.field(description="Hostnames of the nodes under maintenance.")
    is_active: bool = strawberry.field(description="Whether the window has begun and is not over.")
    no_show_after: float | None = strawberry.field(
        description="Seconds after its start at which it is released if no session has used it; null = never."
    )
    used_at: datetime | None = strawberry.field(description="When a session started in it for the first time.")
    series: str | None = strawberry.field(description="Name shared by the bookings of a recurring one.")
    refusal: str | None = strawberry.field(description="Why it, or its last extension, was refused.")
    held_back_gpu_hours: float = strawberry.field(
        description="GPU-hours that it kept idle, charged to its owner; 0 until it ends."
    )
    created_at: datetime = strawberry.field(description="When it was requested.")
    ended_at: datetime | None = strawberry.field(description="When it was over; null while it is open.")
    sessions: list[strawberry.ID] = strawberry.field(description="Sessions in it that wait or run.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, BookingView)


@strawberry.type(description="What a booking would do that is not made yet.")
class BookingEffect:
    refusal: str | None = strawberry.field(description="Why it would be refused; null = it would be accepted.")
    delayed: list[strawberry.ID] = strawberry.field(
        description="Waiting sessions that would start later, the most delayed first; at most 20."
    )
    delayed_count: int = strawberry.field(description="How many waiting sessions would start later.")
    delay_max: float | None = strawberry.field(
        description="Seconds of the longest delay; null = there is none, or it is not known."
    )

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, BookingEffectView)


@strawberry.type(description="The booking after a change.")
class BookingSuccess:
    booking: Booking = strawberry.field(description="The booking.")
    others: list[Booking] = strawberry.field(
        description="The other bookings of a recurring one, refused ones included."
    )
    revision: BigInt = strawberry.field(description="Event number of the change; for `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, BookingChanged)


@strawberry.input(description="A booking to request. Give `gpus`, `devices`, or, for maintenance, `nodes`.")
class ReserveInput:
    name: str = strawberry.field(description="A name of your choice, unique among your open bookings.")
    starts_at: datetime = strawberry.field(description="Start of the window.")
    ends_at: datetime = strawberry.field(description="End of the window.")
    gpus: int | None = strawberry.field(
        default=None, description="Number of whole GPUs; null = as many as are named, else 1."
    )
    models: list[str] | None = strawberry.field(
        default=None, description="Allowed models: case-insensitive patterns with `*` and `?`; null = any."
    )
    devices: list[str] | None = strawberry.field(
        default=None, description="Named GPUs, by device id, or as `<node>/<device>` like `node1/cuda0`."
    )
    nodes: list[str] | None = strawberry.field(
        default=None, description="Nodes for maintenance, by hostname, agent or node id. For operators."
    )
    project: str | None = strawberry.field(default=None, description="Project; null = the default project.")
    pool: str | None = strawberry.field(default=None, description="Pool of agents; null = the default pool.")
    no_show_after: float | None = strawberry.field(
        default=None, description="Seconds after the start at which an unused booking is released; null = 30 minutes."
    )

    repeats: str | None = strawberry.field(
        default=None,
        description="A recurrence rule of RFC 5545, like `FREQ=WEEKLY;BYDAY=TU;UNTIL=20270301`; at most 200 windows.",
    )
    time_zone: str | None = strawberry.field(
        default=None, description="Zone in which the rule keeps the time of day, like `Europe/Berlin`; null = UTC."
    )

    def to_request(self) -> NewBooking:
        """The input as a request."""
        return NewBooking(
            name=self.name,
            starts_at=self.starts_at,
            ends_at=self.ends_at,
            gpus=self.gpus,
            models=tuple(self.models or ()),
            devices=tuple(self.devices or ()),
            nodes=tuple(self.nodes or ()),
            project=self.project,
            pool=self.pool,
            no_show_after=self.no_show_after,
            repeats=self.repeats,
            time_zone=self.time_zone,
        )


@strawberry.type(description="A row of a file of bookings.")
class ImportedRow:
    row: int = strawberry.field(description="The line of a spreadsheet, or the number of the event of a calendar.")
    text: str = strawberry.field(description="The row as it was read, shortened.")
    state: ImportedRowState = strawberry.field(description="What became of it, or would.")
    message: str = strawberry.field(description="Why; empty = it is or would be booked as it is.")
    name: str | None = strawberry.field(description="Name of the booking.")
    owner: str | None = strawberry.field(description="For whom it is.")
    starts_at: datetime | None = strawberry.field(description="Start of the window; null = not read.")
    ends_at: datetime | None = strawberry.field(description="End of the window; null = not read.")
    gpus: int = strawberry.field(description="Number of whole GPUs; 0 for maintenance, and for rows without a booking.")
    windows: int = strawberry.field(description="Bookings that it makes: several if it is recurring.")


@strawberry.type(description="The rows of the file, in its order.")
class ImportReservationsSuccess:
    rows: list[ImportedRow] = strawberry.field(description="What became of each row, or would.")
    dry_run: bool = strawberry.field(description="Whether nothing was stored.")
    revision: BigInt = strawberry.field(description="Event number of the change; for `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, BookingImportView)


@strawberry.input(description="A spreadsheet or calendar of bookings.")
class ImportReservationsInput:
    file_name: str = strawberry.field(description="Name of the file, ending with .csv, .tsv, .xlsx or .ics.")
    content: str = strawberry.field(description="The file, in base64; at most 1 MiB.")
    time_zone: str | None = strawberry.field(
        default=None, description="Zone of times without one, like `Europe/Berlin`; null = UTC."
    )
    project: str | None = strawberry.field(default=None, description="Project of rows that name none.")
    pool: str | None = strawberry.field(default=None, description="Pool of rows that name none.")
    dry_run: bool = strawberry.field(default=False, description="Only show what would become of each row.")

    def to_request(self) -> BookingFile:
        """The input as a request.

        Raises:
            InvalidRequest: the content is not base64.
        """
        try:
            content = b64decode(self.content, validate=True)
        except ValueError:
            raise InvalidRequest("content: this is not base64", field="content") from None
        return BookingFile(
            file_name=self.file_name,
            content=content,
            time_zone=self.time_zone,
            project=self.project,
            pool=self.pool,
            dry_run=self.dry_run,
        )


_ON_IMPORT: Final = (*ALWAYS, errors.StateConflict)
ImportReservationsResult: Final = union("ImportReservationsResult", ImportReservationsSuccess, *_ON_IMPORT)
ReserveResult: Final = union("ReserveResult", BookingSuccess, *_ON_RESERVE)
ExtendReservationResult: Final = union("ExtendReservationResult", BookingSuccess, *_ON_RESERVE)
GiveBackReservationResult: Final = union("GiveBackReservationResult", BookingSuccess, *_ON_GIVE_BACK)
BookingName = Annotated[
    str, strawberry.argument(description="The booking's name or id; of a recurring one, the next with this name.")
]


@strawberry.type
class BookingQueries:
    @root_field(list[Booking], "Bookings, the earliest first; at most 2000.")
    async def reservations(
        self,
        info: Info[Context, None],
        since: Annotated[
            datetime | None, strawberry.argument(description="Only windows that end later; null = all.")
        ] = None,
        until: Annotated[
            datetime | None, strawberry.argument(description="Only windows that begin earlier; null = all.")
        ] = None,
        owner: Annotated[str | None, strawberry.argument(description="Only bookings of this user.")] = None,
        ended: Annotated[
            bool, strawberry.argument(description="Also the newest bookings that are over or were refused.")
        ] = False,
        min_revision: Annotated[
            BigInt | None,
            strawberry.argument(
                description="Answer only once this event is included; pass a mutation's `revision` to read its effect."
            ),
        ] = None,
    ) -> tuple[BookingView, ...]:
        context = info.context
        await context.services.queries.at_revision(min_revision)
        return _port(context).bookings(context.caller, since=since, until=until, owner=owner, with_ended=ended)

    @root_field(
        BookingEffect,
        "Whether a booking would be accepted now, and which waiting sessions it would delay if it is used for its "
        "whole window, by the planned future of `what_if`. Nothing is booked.",
    )
    async def reservation_effect(
        self,
        info: Info[Context, None],
        input: Annotated[ReserveInput, strawberry.argument(description="The booking.")],
    ) -> BookingEffectView:
        context = info.context
        if context.services.booking_effect is None:
            raise Unavailable("bookings are not available on this server")
        return await context.services.booking_effect(context.caller, input.to_request())


@strawberry.type
class BookingMutations:
    @root_field(ReserveResult, "Book GPUs for a window, within the quota; operators also book nodes for maintenance.")
    async def reserve(
        self,
        info: Info[Context, None],
        input: Annotated[ReserveInput, strawberry.argument(description="The booking.")],
    ) -> BookingChanged | errors.Error:
        context = info.context
        return await answer(_port(context).reserve(context.caller, input.to_request()), _ON_RESERVE)

    @root_field(
        ImportReservationsResult,
        "Book the rows of a spreadsheet (CSV, XLSX) or a calendar (ICS). Rows that cannot be booked are listed with "
        "the reason; the others are booked. Operators may name other users.",
    )
    async def import_reservations(
        self,
        info: Info[Context, None],
        input: Annotated[ImportReservationsInput, strawberry.argument(description="The file.")],
    ) -> BookingImportView | errors.Error:
        context = info.context

        async def run() -> BookingImportView:
            if context.services.booking_import is None:
                raise Unavailable("bookings are not available on this server")
            return await context.services.booking_import(context.caller, input.to_request())

        return await answer(run(), _ON_IMPORT)

    @root_field(
        ExtendReservationResult, "Move the end of a booking; a later end is granted if its GPUs are free until then."
    )
    async def extend_reservation(
        self,
        info: Info[Context, None],
        name: BookingName,
        ends_at: Annotated[datetime, strawberry.argument(description="The new end of the window.")],
    ) -> BookingChanged | errors.Error:
        context = info.context
        return await answer(_port(context).extend(context.caller, name, ends_at), _ON_RESERVE)

    @root_field(GiveBackReservationResult, "Cancel a booking, or give back the rest of one that has begun.")
    async def give_back_reservation(
        self,
        info: Info[Context, None],
        name: BookingName,
        series: Annotated[
            bool, strawberry.argument(description="Also all later bookings of the same recurring one.")
        ] = False,
    ) -> BookingChanged | errors.Error:
        context = info.context
        return await answer(_port(context).give_back(context.caller, name, series=series), _ON_GIVE_BACK)


def _port(context: Context) -> BookingsPort:
    if context.services.bookings is None:
        raise Unavailable("bookings are not available on this server")
    return context.services.bookings
