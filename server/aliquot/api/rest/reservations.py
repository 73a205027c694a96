"""REST operations on bookings: GPUs for a window of time, and nodes for maintenance."""

from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta, Struct

from aliquot.api.rest.framework import Operation, RestRequest
from aliquot.api.rest.requests import Duration, Moment, Text
from aliquot_schema.errors import Unavailable
from aliquot_schema.graphql.context import BookingsPort
from aliquot_schema.requests import NewBooking
from aliquot_schema.resources.units import duration_seconds
from aliquot_schema.views.bookings import BookingChanged, BookingView

Aware = Annotated[datetime, Meta(tz=True, description="RFC 3339, with a zone.")]


class Reserve(Struct, kw_only=True, forbid_unknown_fields=True):
    """A booking to request; give `gpus`, `devices`, or, for maintenance, `nodes`."""

    name: Text
    starts_at: Aware
    ends_at: Aware
    gpus: Annotated[int, Meta(ge=1, le=8192, description="Number of whole GPUs.")] | None = None
    models: tuple[Text, ...] = ()
    devices: Annotated[tuple[Text, ...], Meta(description="Named GPUs, like `node1/cuda0`.")] = ()
    nodes: Annotated[tuple[Text, ...], Meta(description="Nodes for maintenance; for operators.")] = ()
    project: Text | None = None
    pool: Text | None = None
    no_show_after: Duration | None = None
    repeats: Annotated[str, Meta(max_length=500, description="A recurrence rule of RFC 5545.")] | None = None
    time_zone: Text | None = None


class NewEnd(Struct, kw_only=True, forbid_unknown_fields=True):
    """The new end of a window."""

    ends_at: Aware


class ReservationsAsked(Struct, kw_only=True, forbid_unknown_fields=True):
    """Filter of bookings; parameters that are not given do not filter."""

    since: Moment | None = None
    until: Moment | None = None
    owner: Text | None = None
    ended: bool = False


class ReturnAsked(Struct, kw_only=True, forbid_unknown_fields=True):
    """Whether all later bookings of the same recurring one are given back too."""

    series: bool = False


class Reservations(Struct, kw_only=True):
    """Bookings, the earliest first."""

    bookings: tuple[BookingView, ...]


async def reserve(ask: RestRequest) -> BookingChanged:
    """See `Bookings.reserve`."""
    body: Reserve = ask.body
    asked = NewBooking(
        name=body.name,
        starts_at=body.starts_at,
        ends_at=body.ends_at,
        gpus=body.gpus,
        models=body.models,
        devices=body.devices,
        nodes=body.nodes,
        project=body.project,
        pool=body.pool,
        no_show_after=duration_seconds(body.no_show_after, field="no_show_after"),
        repeats=body.repeats,
        time_zone=body.time_zone,
    )
    return await _port(ask).reserve(ask.context.caller, asked)


async def reservations(ask: RestRequest) -> Reservations:
    """See `Bookings.bookings`."""
    query: ReservationsAsked = ask.query
    found = _port(ask).bookings(
        ask.context.caller, since=query.since, until=query.until, owner=query.owner, with_ended=query.ended
    )
    return Reservations(bookings=found)


async def extend(ask: RestRequest) -> BookingChanged:
    """See `Bookings.extend`."""
    body: NewEnd = ask.body
    return await _port(ask).extend(ask.context.caller, ask.path["name"], body.ends_at)


async def give_back(ask: RestRequest) -> BookingChanged:
    """See `Bookings.give_back`."""
    query: ReturnAsked = ask.query
    return await _port(ask).give_back(ask.context.caller, ask.path["name"], series=query.series)


def _port(ask: RestRequest) -> BookingsPort:
    if ask.context.services.bookings is None:
        raise Unavailable("bookings are not available on this server")
    return ask.context.services.bookings


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/reservations",
        name="reservations",
        cost=200,
        summary="Bookings of GPUs, and of nodes for maintenance, the earliest first; at most 2000.",
        handler=reservations,
        query=ReservationsAsked,
    ),
    Operation(
        method="POST",
        path="/reservations",
        name="reserve",
        summary="Book GPUs for a window of time, or, as an operator, nodes for maintenance. 409 says what hinders it.",
        handler=reserve,
        body=Reserve,
        problems=(404, 409),
    ),
    Operation(
        method="PATCH",
        path="/reservations/{name}",
        name="extend_reservation",
        summary="Move the end of a booking. A later end is granted if its GPUs are free until then.",
        handler=extend,
        body=NewEnd,
        problems=(404, 409),
    ),
    Operation(
        method="DELETE",
        path="/reservations/{name}",
        name="give_back_reservation",
        summary="Cancel a booking, or give back the rest of one that has begun.",
        handler=give_back,
        query=ReturnAsked,
        problems=(404, 409),
    ),
)
