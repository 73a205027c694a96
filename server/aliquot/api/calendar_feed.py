"""Calendar feed: bookings as iCalendar (RFC 5545), for calendar programs, at a secret address.

`/calendar.ics?user=NAME&secret=SECRET` has the bookings of a user, with `&all=1` those of all users. The secret opens
nothing else. It is in the query string, which the access log leaves out.
"""

from collections.abc import Iterable
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from aliquot_schema.bookings import BookingKind
from aliquot_schema.graphql.context import Services
from aliquot_schema.identity.accounts import Role
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller
from aliquot_schema.views.bookings import BookingView

PATH: Final = "/calendar.ics"
TEXT_CHARS_MAX: Final = 200
UNKNOWN: Final = "There is no such calendar. Make a new address on the page Calendar, or by renew_calendar_feed.\n"
NOT_INSTALLED: Final = "Calendar feeds need an extra on the server: pip install 'aliquot[calendar]'\n"


class CalendarFeed:
    """The feed. Its address is the right to read it; nothing but bookings is in it."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def answer(self, request: Request) -> Response:
        """The open bookings, as a calendar."""
        user, secret = (request.query_params.get(name, "")[:TEXT_CHARS_MAX] for name in ("user", "secret"))
        bookings = self._services.bookings
        if bookings is None or not self._services.accounts.opens_feed(user, secret):
            return PlainTextResponse(UNKNOWN, status_code=404)
        owner = None if request.query_params.get("all") else user
        caller = Caller(user=UserId(user), role=Role.VIEWER, request_id="")
        try:
            text = calendar_of(bookings.bookings(caller, since=None, until=None, owner=owner, with_ended=False))
        except ImportError:
            return PlainTextResponse(NOT_INSTALLED, status_code=503)
        headers = {"cache-control": "private, no-cache"}
        return Response(text, media_type="text/calendar; charset=utf-8", headers=headers)

    def routes(self) -> list[Route]:
        """The route of the feed."""
        return [Route(PATH, self.answer, methods=["GET"])]


def calendar_of(bookings: Iterable[BookingView]) -> bytes:
    """Bookings as iCalendar.

    Raises:
        ImportError: the extra `calendar` is not installed.
    """
    from icalendar import Calendar, Event

    found = Calendar()
    found.add("prodid", "-//Aliquot//bookings//EN")
    found.add("version", "2.0")
    found.add("x-wr-calname", "Aliquot")
    for one in bookings:
        event = Event()
        event.add("uid", f"{one.id}@aliquot")
        event.add("summary", _summary(one))
        event.add("dtstamp", one.created_at)
        event.add("dtstart", one.starts_at)
        event.add("dtend", one.ends_at)
        event.add("description", f"{one.name} of {one.owner}, project {one.project}")
        if places := sorted({gpu.hostname for gpu in one.devices} | set(one.nodes)):
            event.add("location", ", ".join(places))
        found.add_component(event)
    return bytes(found.to_ical())


def _summary(one: BookingView) -> str:
    if one.kind is BookingKind.MAINTENANCE:
        return f"Maintenance: {', '.join(one.nodes)}"
    return f"{one.name}: {'1 GPU' if one.gpus == 1 else f'{one.gpus} GPUs'} ({one.owner})"
