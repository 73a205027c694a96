"""What operators are told of the record: page by page, without what is not theirs to see, and nobody else."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aliquot.service.audit.audit import Auditing
from aliquot.service.views.terms import moment
from aliquot_schema.errors import Forbidden, InvalidRequest
from aliquot_schema.events import Event
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller, PageRequest, Role
from aliquot_schema.resources.leases import Lease
from aliquot_schema.views.audit import AuditFilter, CursorPage
from ledger_course import OPERATOR, Course, course_on
from store_places import Place

pytestmark = pytest.mark.anyio

ADMIN = Caller(user=UserId("root"), request_id="req_admin", role=Role.ADMIN)
ANYBODY = Caller(user=UserId("ann"), request_id="req_ann", role=Role.USER)
EVERYTHING = AuditFilter()


async def walk(ask: Callable[[PageRequest], Awaitable[CursorPage[Any]]], *, first: int) -> list[Any]:
    """All pages, one after another."""
    found: list[Any] = []
    after = None
    while True:
        reel = await ask(PageRequest(first=first, after=after))
        assert reel.has_previous is (after is not None)
        found += reel.items
        if not reel.has_next:
            return found
        after = reel.cursors[-1]


async def told(place: Place, ask: Callable[[Auditing, Course, tuple[Event, ...]], Awaitable[None]]) -> None:
    """Ask while the service runs, and nothing happens."""
    async with course_on(place) as (course, running):
        await course.until_written(running.ledger, 30)
        await ask(course.service.administration.audit, course, await running.events_after(0, limit=100_000))


async def test_every_change_is_on_one_page_the_newest_first(place: Place) -> None:
    async def ask(office: Auditing, course: Course, events: tuple[Event, ...]) -> None:
        found = await walk(lambda page: office.audit(OPERATOR, EVERYTHING, page), first=97)
        numbers = [one.number for one in found]
        assert numbers == list(range(numbers[0], 0, -1))
        assert numbers[0] >= events[-1].number
        people = await walk(lambda page: office.audit(OPERATOR, AuditFilter(people_only=True), page), first=50)
        assert {one.actor for one in people} <= {"ann", "bob", "cat", "dan", "root"}
        middle = moment(events[len(events) // 2].at_us)
        late = await walk(lambda page: office.audit(OPERATOR, AuditFilter(kind="lease", since=middle), page), first=50)
        assert late
        assert all(one.kind.startswith("lease.") and one.at >= middle for one in late)

    await told(place, ask)


async def test_commands_are_for_admins_and_secrets_for_nobody(place: Place) -> None:
    async def ask(office: Auditing, course: Course, events: tuple[Event, ...]) -> None:
        sessions = AuditFilter(kind="session.queued")
        by_operator = str(await walk(lambda page: office.audit(OPERATOR, sessions, page), first=100))
        by_admin = str(await walk(lambda page: office.audit(ADMIN, sessions, page), first=100))
        assert "TOKEN" in by_operator
        assert "hunter2" not in by_operator + by_admin
        assert ("a.py" in by_operator, "a.py" in by_admin) == (False, True)

    await told(place, ask)


async def test_who_held_a_device_is_one_question(place: Place) -> None:
    async def ask(office: Auditing, course: Course, events: tuple[Event, ...]) -> None:
        granted = [event.record for event in events if event.kind == "lease.granted"]
        lease = granted[len(granted) // 2]
        assert isinstance(lease, Lease)
        (slot, held), *_ = lease.spec.items()
        (device, *_) = held
        found = await office.held_by(OPERATOR, device, moment(lease.granted_us))
        (mine,) = [one for one in found if one.lease_id == lease.id]
        assert (mine.user, mine.slot, mine.since) == (lease.owner, slot, moment(lease.granted_us))
        assert await office.held_by(OPERATOR, "GPU-nowhere", moment(lease.granted_us)) == ()

    await told(place, ask)


async def test_passes_tell_what_they_decided(place: Place) -> None:
    async def ask(office: Auditing, course: Course, events: tuple[Event, ...]) -> None:
        found = await walk(lambda page: office.ledger_passes(OPERATOR, page), first=11)
        numbers = [one.number for one in found]
        assert numbers == sorted(set(numbers), reverse=True)
        assert len(numbers) >= 30
        scheduled = {event.entity_id for event in events if event.kind == "session.scheduled"}
        assert scheduled & {name for one in found for name in one.placed}

    await told(place, ask)


async def test_nobody_else_is_told(place: Place) -> None:
    async def ask(office: Auditing, course: Course, events: tuple[Event, ...]) -> None:
        page = PageRequest(first=10)
        for refused in (
            office.audit(ANYBODY, EVERYTHING, page),
            office.held_by(ANYBODY, "GPU-0", moment(0)),
            office.ledger_passes(ANYBODY, page),
        ):
            with pytest.raises(Forbidden, match="operators"):
                await refused
        for cursor in ("nonsense", "YWJj"):
            with pytest.raises(InvalidRequest, match="not a cursor of this list"):
                await office.audit(OPERATOR, EVERYTHING, PageRequest(first=10, after=cursor))

    await told(place, ask)
