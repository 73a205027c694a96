"""Bookings: request GPUs for a window, extend a booking, give it back, and list the calendar.

A scheduling pass decides each request; a call returns after that pass.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from aliquot.core.validation.fields import check_limit, count, label, milliseconds, models_of
from aliquot.service.access import check_may_submit, check_project, check_role
from aliquot.service.accounts.key_budgets import refuse_booking
from aliquot.service.ports import Clock, Ids
from aliquot.service.recurrence import AHEAD_S_MAX, end_like, occurrences
from aliquot.service.sessions.submission_checks import check_project_exists
from aliquot.service.state.journal import Feed, Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot.service.views.terms import microseconds, moment
from aliquot_schema.bookings import NO_SHOW_AFTER_MS, BookedDevice, Booking, BookingKind, BookingState
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.errors import (
    BookingRefused,
    Forbidden,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    StateConflict,
    Unavailable,
)
from aliquot_schema.identity.accounts import Role
from aliquot_schema.ids import BOOKING_PREFIX, BookingId, NodeId, PoolId, ProjectId, RequestId, natural_key
from aliquot_schema.requests import Caller, NewBooking
from aliquot_schema.resources.slots import is_accelerator
from aliquot_schema.resources.units import format_duration
from aliquot_schema.sessions import DEFAULT_POOL, DEFAULT_PROJECT
from aliquot_schema.views.bookings import BookedGpuView, BookingChanged, BookingView

WINDOW_S_MAX: Final = 31 * 86_400
WINDOW_S_MIN: Final = 60
NO_SHOW_S_MAX: Final = 86_400
GPUS_MAX: Final = 8_192
OPEN_MAX: Final = 500
"""Open bookings of one user."""
PAST_US: Final = 60_000_000
"""A window may begin this long before the request, so that "now" can be asked for."""
PASS_WAIT_S: Final = 10.0
LISTED_MAX: Final = 2_000
GPU_HOUR: Final = 1000 * 3_600_000
"""In milli of a device x milliseconds."""
ACTOR: Final = "system:bookings"


class Bookings:
    """Use cases of bookings. Every method that changes something returns after the commit."""

    def __init__(self, *, state: State, journal: Journal, feed: Feed, clock: Clock, ids: Ids) -> None:
        self._state = state
        self._journal = journal
        self._feed = feed
        self._clock = clock
        self._ids = ids

    async def reserve(self, caller: Caller, asked: NewBooking) -> BookingChanged:
        """Book GPUs, or nodes for maintenance.

        Raises:
            BookingRefused: the devices cannot be free for the window, or a quota does not allow it.
            InvalidRequest, LimitExceeded: a field is wrong.
            Forbidden: viewers book nothing, and only operators book nodes.
            StateConflict: the caller has an open booking of this name.
            Unavailable: no server is leading. Nothing is booked then, and no window of a series either.
        """
        check_may_submit(caller)
        refuse_booking(self._state, caller)
        decided = await self.reserve_all(caller, self.wanted(caller, asked))
        kept = next((one for one in decided if one.state is BookingState.BOOKED), None)
        if kept is None:
            raise BookingRefused(f"{decided[0].refusal or 'it was withdrawn'}.", id=decided[0].id)
        return self._changed(kept, others=[one for one in decided if one is not kept])

    async def reserve_all(
        self, caller: Caller, wanted: Sequence[Booking], *, joins_series: bool = False
    ) -> list[Booking]:
        """Request bookings together, and return them as the pass decided them; see `reserve` for errors.

        Args:
            joins_series: they may be further windows of recurring bookings that are open.
        """

        def change(draft: UnitOfWork) -> list[Booking]:
            for owner in sorted({one.owner for one in wanted}):
                mine = [one for one in self._state.bookings.open if one.owner == owner]
                own = [one for one in wanted if one.owner == owner]
                check_limit(len(mine) + len(own), field="bookings", most=OPEN_MAX)
                names, series = {one.name for one in mine}, {one.series for one in mine} - {None}
                groups = names if joins_series else names | series
                taken = next((one.name for one in own if one.name in names | series or one.series in groups), None)
                if taken is not None:
                    raise StateConflict(
                        f"name: you have an open booking named {taken}; choose another name", id=taken, state="open"
                    )
            return [draft.put(one, "requested") for one in wanted]

        made = await self._journal.transact(change, actor=caller.actor, request_id=RequestId(caller.request_id))
        try:
            return [await self._after_pass(one.id, lambda one: one.state is not BookingState.REQUESTED) for one in made]
        except Unavailable:
            await self._journal.transact(lambda draft: self._give_up(draft, made), actor=ACTOR)
            raise

    async def extend(self, caller: Caller, name: str, ends_at: datetime) -> BookingChanged:
        """Move the end of a booking.

        An earlier end needs no decision. A later one is granted if the devices are not booked by others until
        then, and no session runs on them.

        Raises:
            BookingRefused: others have them then; the booking stays as it is.
            NotFound, Forbidden, StateConflict, InvalidRequest, Unavailable: see `reserve`.
        """
        to_us = _micros(ends_at, field="ends_at")

        def change(draft: UnitOfWork) -> Booking:
            booking = self._changeable(draft, caller, name)
            if booking.state is not BookingState.BOOKED:
                raise StateConflict(f"{booking.name} is {booking.state}", id=booking.id, state=booking.state)
            if to_us <= max(self._clock.now_us(), booking.starts_us):
                raise InvalidRequest("ends_at: it is over by then; give it back instead", field="ends_at")
            _check_window(booking.starts_us, to_us)
            if to_us <= booking.ends_us:
                return draft.put(replace(booking, ends_us=to_us, extends_to_us=None), "shortened")
            refuse_booking(self._state, caller)
            return draft.put(replace(booking, extends_to_us=to_us, refusal=None), "extension_requested")

        made = await self._journal.transact(change, actor=caller.actor, request_id=RequestId(caller.request_id))
        decided = await self._after_pass(made.id, lambda one: one.extends_to_us is None)
        if decided.ends_us != to_us:
            raise BookingRefused(f"{decided.refusal or 'it is over'}.", id=decided.id)
        return self._changed(decided)

    async def give_back(self, caller: Caller, name: str, *, series: bool = False) -> BookingChanged:
        """Cancel a booking that has not begun, or give back the rest of one that has. Doing it twice is no error.

        Its sessions go on as ordinary ones.

        Args:
            series: also all later bookings of the same recurring one.
        Raises:
            NotFound, Forbidden.
            StateConflict: it was refused, or its window is over.
        """

        def change(draft: UnitOfWork) -> list[Booking]:
            booking = self._changeable(draft, caller, name)
            later = [
                one
                for one in self._state.bookings.open
                if series and booking.series is not None and (one.series, one.owner) == (booking.series, booking.owner)
                if one.starts_us > booking.starts_us
            ]
            return [self._given_back(draft, one) for one in (booking, *later)]

        given = await self._journal.transact(change, actor=caller.actor, request_id=RequestId(caller.request_id))
        return self._changed(given[0], others=given[1:])

    def _given_back(self, draft: UnitOfWork, booking: Booking) -> Booking:
        if booking.state in (BookingState.CANCELED, BookingState.GIVEN_BACK):
            return booking
        if not booking.is_open:
            raise StateConflict(f"{booking.name} is {booking.state}", id=booking.id, state=booking.state)
        now_us = self._clock.now_us()
        state = BookingState.GIVEN_BACK if booking.is_active(now_us) else BookingState.CANCELED
        return draft.end_booking(replace(booking, state=state, extends_to_us=None), now_us=now_us)

    def bookings(
        self,
        caller: Caller,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        owner: str | None = None,
        with_ended: bool = False,
    ) -> tuple[BookingView, ...]:
        """Bookings whose window has a moment in [since, until), the earliest first; at most `LISTED_MAX`."""
        del caller  # the calendar is open to everybody
        from_us = 0 if since is None else _micros(since, field="since")
        until_us = 1 << 62 if until is None else _micros(until, field="until")
        known = [*self._state.bookings.open, *(self._state.bookings.ended() if with_ended else ())]
        found = [one for one in known if one.overlaps(from_us, until_us) and owner in (None, one.owner)]
        ordered = sorted(found, key=lambda one: (one.starts_us, one.id))
        return tuple(self._view(one) for one in ordered[:LISTED_MAX])

    def wanted(self, caller: Caller, asked: NewBooking) -> list[Booking]:
        """The request as records, one for each window; see `reserve` for errors.

        Repeated windows start at the same time of day and are equally long, also when the clocks change; whole days
        stay whole days.
        """
        first = self.requested(caller, asked)
        if asked.repeats is None:
            return [first]
        starts = occurrences(asked.starts_at, asked.repeats, time_zone=asked.time_zone)
        form = "%Y-%m-%d" if len({at.date() for at in starts}) == len(starts) else "%Y-%m-%dT%H%M"
        windows = [(at, end_like(at, asked.starts_at, asked.ends_at)) for at in starts]
        return [
            replace(
                self.requested(caller, replace(asked, starts_at=at, ends_at=ends_at)),
                name=f"{first.name}-{at:{form}}",
                series=first.name,
            )
            for at, ends_at in windows
        ]

    def requested(self, caller: Caller, asked: NewBooking) -> Booking:
        """The request as a record that is not stored; see `reserve` for errors."""
        now_us = self._clock.now_us()
        starts_us, ends_us = _micros(asked.starts_at, field="starts_at"), _micros(asked.ends_at, field="ends_at")
        if starts_us < now_us - PAST_US:
            raise InvalidRequest("starts_at: it is in the past", field="starts_at")
        _check_span((starts_us - now_us) // 1_000_000, "starts_at", "starts at most {} from now", most=AHEAD_S_MAX)
        _check_window(starts_us, ends_us)
        name = label(asked.name, field="name")
        if not name:
            raise InvalidRequest("name: it is empty; give the booking a name", field="name")
        project = ProjectId(label(asked.project, field="project") or _own_project(caller))
        check_project(caller, project)
        if project not in caller.projects:
            check_project_exists(self._state, project)
        wanted, nodes = self._devices(asked.devices), self._nodes(asked.nodes)
        no_show_ms = milliseconds(asked.no_show_after, field="no_show_after", most_s=NO_SHOW_S_MAX)
        if nodes:
            check_role(caller, Role.OPERATOR)
            if wanted or asked.gpus:
                raise InvalidRequest("nodes: maintenance takes whole nodes; leave out gpus and devices", field="nodes")
        elif asked.gpus is not None and wanted and asked.gpus != len(wanted):
            raise InvalidRequest(f"gpus: {len(wanted)} devices are named; leave out gpus", field="gpus")
        gpus = len(wanted) or (asked.gpus if asked.gpus is not None else 1)
        return Booking(
            id=BookingId(self._ids.new(BOOKING_PREFIX)),
            kind=BookingKind.MAINTENANCE if nodes else BookingKind.USE,
            name=name,
            owner=caller.user,
            project=project,
            pool=PoolId(label(asked.pool, field="pool") or DEFAULT_POOL),
            gpus=0 if nodes else count(gpus, field="gpus", least=1, most=GPUS_MAX),
            models=models_of(asked.models, field="models"),
            wanted=wanted,
            nodes=nodes,
            starts_us=starts_us,
            ends_us=ends_us,
            no_show_after_ms=None if nodes else no_show_ms or NO_SHOW_AFTER_MS,
            created_us=now_us,
        )

    def _devices(self, names: Sequence[str]) -> tuple[BookedDevice, ...]:
        """Devices by id, or as `<node>/<device>` with the node's id, hostname or agent and the device's id or name."""
        return tuple(sorted({self._device(name) for name in names}))

    def _device(self, name: str) -> BookedDevice:
        place, _, short = name.rpartition("/")
        found = {
            BookedDevice(agent.node_id, device.id)
            for agent in self._state.agents.values()
            for device in agent.devices
            if any(map(is_accelerator, device.costs))
            and ((device.id == name) or (short in (device.id, device.name) and place in _names_of(agent)))
        }
        if len(found) != 1:
            what = "is not known" if not found else "is on several nodes; write it as <node>/<device>"
            raise InvalidRequest(f"devices: {name[:80]} {what}", field="devices")
        return found.pop()

    def _nodes(self, names: Sequence[str]) -> tuple[NodeId, ...]:
        found: list[NodeId] = []
        for name in names:
            nodes = {agent.node_id for agent in self._state.agents.values() if name in _names_of(agent)}
            if len(nodes) != 1:
                what = "unknown" if not nodes else "the name of several nodes; give the node's id"
                raise InvalidRequest(f"nodes: {name[:80]} is {what}", field="nodes")
            found += nodes
        return tuple(sorted(set(found)))

    def _changeable(self, draft: UnitOfWork, caller: Caller, name: str) -> Booking:
        booking = draft.find(Booking, name) or self._state.bookings.named(name, caller=caller)
        if booking is None:
            whose = " of yours or of your projects"
            if caller.role >= Role.OPERATOR:
                whose = "; if several people have one of that name, give its id"
            raise NotFound(f"there is no booking {name[:80]}{whose}", kind="booking", id=name[:80])
        check_may_submit(caller)
        if caller.role < Role.OPERATOR and caller.user != booking.owner:
            raise Forbidden(f"{booking.name} belongs to {booking.owner}; only its owner and operators may change it")
        return booking

    async def _after_pass(self, booking_id: BookingId, is_decided: Callable[[Booking], bool]) -> Booking:
        """The booking after the pass that decided about it.

        Raises:
            Unavailable: no pass within `PASS_WAIT_S`; the request was withdrawn.
        """

        def find() -> Booking:
            found = self._state.bookings.find(booking_id)
            assert found is not None, f"{booking_id} was just written"
            return found

        try:
            async with asyncio.timeout(PASS_WAIT_S):
                while not is_decided(find()):
                    await self._feed.reached(self._state.revision + 1)
        except TimeoutError:
            await self._journal.transact(lambda draft: self._withdraw(draft, booking_id), actor=ACTOR)
            if not is_decided(find()) or find().state is BookingState.CANCELED:
                raise Unavailable(
                    "no server is scheduling right now, so nothing can be booked; try again in a few seconds, or ask "
                    "an operator whether scheduling is stopped"
                ) from None
        return find()

    def _withdraw(self, draft: UnitOfWork, booking_id: BookingId) -> None:
        booking = draft.find(Booking, booking_id)
        if booking is not None and booking.state is BookingState.REQUESTED:
            now_us = self._clock.now_us()
            draft.put(replace(booking, state=BookingState.CANCELED, ended_us=now_us), "canceled")
        elif booking is not None and booking.extends_to_us is not None:
            draft.put(replace(booking, extends_to_us=None), "extension_withdrawn")

    def _give_up(self, draft: UnitOfWork, made: Sequence[Booking]) -> None:
        """End what is requested or booked of a series."""
        for one in made:
            booking = draft.find(Booking, one.id)
            if booking is not None and booking.is_open:
                self._given_back(draft, booking)

    def _changed(self, booking: Booking, *, others: Sequence[Booking] = ()) -> BookingChanged:
        views = tuple(self._view(one) for one in others)
        return BookingChanged(booking=self._view(booking), revision=self._state.revision, others=views)

    def _view(self, booking: Booking) -> BookingView:
        return booking_view(self._state, booking, now_us=self._clock.now_us())


def booking_view(state: State, booking: Booking, *, now_us: int) -> BookingView:
    """The read model of a booking."""
    hosts = {agent.node_id: agent.hostname for agent in state.agents.values()}
    known = {
        (agent.node_id, device.id): (device.name, device.model)
        for agent in state.agents.values()
        for device in agent.devices
    }
    sessions = [row.session_id for row in state.pending.values() if row.booking == booking.id]
    sessions += [row.session_id for row in state.running_rows.rows() if row.booking == booking.id]
    devices = []
    for device in sorted(booking.devices or booking.wanted, key=lambda one: natural_key(one.device_id)):
        name, model = known.get(device, (device.device_id, ""))
        devices.append(
            BookedGpuView(
                node_id=device.node_id,
                hostname=hosts.get(device.node_id, device.node_id),
                device_id=device.device_id,
                name=name,
                model=model,
            )
        )
    return BookingView(
        id=booking.id,
        name=booking.name,
        kind=booking.kind,
        owner=booking.owner,
        project=booking.project,
        pool=booking.pool,
        state=booking.state,
        starts_at=moment(booking.starts_us),
        ends_at=moment(booking.ends_us),
        gpus=booking.gpus,
        models=booking.models,
        devices=tuple(devices),
        nodes=tuple(hosts.get(node_id, node_id) for node_id in booking.nodes),
        is_active=booking.is_active(now_us),
        no_show_after=None if booking.no_show_after_ms is None else booking.no_show_after_ms / 1000,
        used_at=None if booking.used_us is None else moment(booking.used_us),
        series=booking.series,
        refusal=booking.refusal,
        held_back_gpu_hours=booking.held_back / GPU_HOUR,
        created_at=moment(booking.created_us),
        ended_at=None if booking.ended_us is None else moment(booking.ended_us),
        sessions=tuple(sorted(sessions)),
    )


def _names_of(agent: Agent) -> tuple[str, ...]:
    return agent.node_id, agent.hostname, agent.id


def _own_project(caller: Caller) -> str:
    return caller.projects[0] if len(caller.projects) == 1 else DEFAULT_PROJECT


def _check_window(starts_us: int, ends_us: int) -> None:
    seconds = (ends_us - starts_us) // 1_000_000
    if seconds < WINDOW_S_MIN:
        raise InvalidRequest("ends_at: a window lasts at least a minute, and ends after it starts", field="ends_at")
    _check_span(seconds, "ends_at", "lasts at most {}", most=WINDOW_S_MAX)


def _check_span(seconds: int, field: str, rule: str, *, most: int) -> None:
    if seconds > most:
        text = f"{field}: a booking {rule.format(format_duration(most))}"
        raise LimitExceeded(text, field=field, limit=most, actual=seconds)


def _micros(at: datetime, *, field: str) -> int:
    """Microseconds UTC of an aware time."""
    if at.tzinfo is None:
        raise InvalidRequest(f"{field}: it has no time zone; write it like 2026-11-23T09:00:00Z", field=field)
    return microseconds(at)
