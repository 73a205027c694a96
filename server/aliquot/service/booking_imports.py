"""Booking imports: makes bookings of the rows of a file, or says for each row what would become of it."""

import asyncio
import re
from collections.abc import Container, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.scheduler.bookings import decided_bookings
from aliquot.service.access import check_may_submit, check_role
from aliquot.service.accounts.key_budgets import refuse_booking
from aliquot.service.booking_files import BookingRow, rows_of
from aliquot.service.bookings import Bookings
from aliquot.service.ports import Clock
from aliquot.service.state.snapshots import take
from aliquot.service.state.state import State
from aliquot_schema.bookings import Booking, BookingState
from aliquot_schema.errors import AliquotError, NotFound
from aliquot_schema.identity.accounts import Role
from aliquot_schema.ids import UserId
from aliquot_schema.requests import BookingFile, Caller
from aliquot_schema.views.bookings import BookingImportView, ImportedRowState, ImportedRowView


class _Planned(Struct, frozen=True, kw_only=True):
    """A row, and what it becomes."""

    row: BookingRow
    bookings: Sequence[Booking] = ()
    """Of a recurring one, its windows."""
    error: str | None = None
    is_known: bool = False


class BookingImports:
    """Reads files of bookings. A row that cannot be booked does not keep the others from being booked."""

    def __init__(self, *, state: State, bookings: Bookings, clock: Clock) -> None:
        self._state = state
        self._bookings = bookings
        self._clock = clock

    async def run(self, caller: Caller, asked: BookingFile) -> BookingImportView:
        """Book the rows of a file, in their order; with `dry_run`, nothing is stored.

        A row that is booked already, with the same user, name and window, is left alone, so that a file can be imported
        again after a correction.

        Raises:
            InvalidRequest, Unavailable: see `rows_of`; no server is leading.
            LimitExceeded: the rows are more than a user may have booked.
            Forbidden: viewers book nothing.
        """
        check_may_submit(caller)
        if not asked.dry_run:
            refuse_booking(self._state, caller)
        rows = await asyncio.to_thread(rows_of, asked.content, file_name=asked.file_name, time_zone=asked.time_zone)
        known = list(self._state.bookings.open)
        planned = _named_apart([self._planned(caller, row, asked, known) for row in rows], self._state.bookings.open)
        wanted = [booking for one in planned for booking in one.bookings]
        if asked.dry_run:
            decided = self._foreseen(wanted)
        elif wanted:
            decided = {one.id: one for one in await self._bookings.reserve_all(caller, wanted, joins_series=True)}
        else:
            decided = {}
        views = tuple(_view(one, decided, dry_run=asked.dry_run) for one in planned)
        return BookingImportView(rows=views, dry_run=asked.dry_run, revision=self._state.revision)

    def _planned(self, caller: Caller, row: BookingRow, asked: BookingFile, known: list[Booking]) -> _Planned:
        """The outcome of a row. Bookings that an earlier import made of it are removed from `known`."""
        if row.asked is None:
            return _Planned(row=row, error=row.error)
        request = replace(row.asked, project=row.asked.project or asked.project, pool=row.asked.pool or asked.pool)
        try:
            made = self._bookings.wanted(self._owner(caller, row.user), request)
        except AliquotError as error:
            return _Planned(row=row, error=error.message)
        new = []
        for one in made:
            earlier = next((booking for booking in known if _is_same(booking, one)), None)
            if earlier is None:
                # Requests are decided in the order of their creation, so that the first row wins.
                new.append(replace(one, created_us=one.created_us + row.number))
            else:
                known.remove(earlier)
        return _Planned(row=row, bookings=new, is_known=not new)

    def _owner(self, caller: Caller, user: str | None) -> Caller:
        """For whom a row is booked. Only operators book for others."""
        if user is None or user == caller.user:
            return caller
        check_role(caller, Role.OPERATOR)
        known = self._state.people.users.get(UserId(user))
        if known is None:
            raise NotFound(f"user: there is no user {user[:80]}", kind="user", id=user[:80])
        return replace(caller, user=known.id, projects=tuple(known.projects))

    def _foreseen(self, wanted: Sequence[Booking]) -> dict[str, Booking]:
        """The bookings as the next pass would decide them."""
        snapshot = take(self._state)
        requested = replace(snapshot, bookings=(*snapshot.bookings, *wanted))
        _, decisions = decided_bookings(requested, now_us=self._clock.now_us())
        known = {one.booking_id: one for one in decisions}
        return {
            one.id: replace(one, state=decision.state, refusal=decision.refusal)
            for one in wanted
            if (decision := known.get(one.id)) is not None
        }


def _is_same(known: Booking, one: Booking) -> bool:
    """Whether a booking was made of this row earlier; its name may have a number added, see `_named_apart`."""
    if (known.owner, known.starts_us, known.ends_us) != (one.owner, one.starts_us, one.ends_us):
        return False
    return re.fullmatch(rf"{re.escape(one.name)}(-\d+)?", known.name) is not None


def _named_apart(planned: Sequence[_Planned], known: Iterable[Booking]) -> list[_Planned]:
    """Give bookings of one owner different names: a spreadsheet often has the same word in each row.

    New windows of a recurring booking join it.
    """
    names = {(one.owner, one.name) for one in known}
    series = {(one.owner, one.series) for one in known if one.series is not None}

    def free(owner: UserId, name: str, *, taken: Container[tuple[UserId, str]]) -> str:
        number, found = 1, name
        while (owner, found) in taken:
            number += 1
            found = f"{name}-{number}"
        return found

    found = []
    for one in planned:
        named = []
        group = None
        for booking in one.bookings:
            owner = booking.owner
            if booking.series is not None and group is None:
                group = free(owner, booking.series, taken=names)
                series.add((owner, group))
            name = free(owner, booking.name, taken=names | series)
            names.add((owner, name))
            named.append(replace(booking, name=name, series=group))
        found.append(replace(one, bookings=named))
    return found


def _view(one: _Planned, decided: dict[str, Booking], *, dry_run: bool) -> ImportedRowView:
    found = [decided[booking.id] for booking in one.bookings if booking.id in decided]
    kept = [booking for booking in found if booking.state is BookingState.BOOKED]
    refusals = [booking.refusal for booking in found if booking.refusal]
    first = one.bookings[0] if one.bookings else None
    if one.error is not None:
        state, message = ImportedRowState.WRONG, one.error
    elif one.is_known:
        state, message = ImportedRowState.KNOWN, "It is booked already."
    elif not kept:
        state, message = ImportedRowState.REFUSED, f"{refusals[0] if refusals else 'It was withdrawn'}."
    else:
        state = ImportedRowState.BOOKABLE if dry_run else ImportedRowState.BOOKED
        message = "" if not refusals else f"{len(refusals)} of {len(found)} windows are refused: {refusals[0]}."
    asked = one.row.asked
    return ImportedRowView(
        row=one.row.number,
        text=one.row.text,
        state=state,
        message=message,
        name=first.name if first is not None else None if asked is None else asked.name,
        owner=first.owner if first is not None else one.row.user,
        starts_at=None if asked is None else asked.starts_at,
        ends_at=None if asked is None else asked.ends_at,
        gpus=0 if first is None else first.gpus,
        windows=len(one.bookings),
    )
