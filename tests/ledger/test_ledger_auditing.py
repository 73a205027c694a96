"""The audit trail as operators read it: paged, without confidential values, and for operators only."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, select, update

from aliquot.service.audit.audit import PERIOD_MAX, Auditing
from aliquot.service.ports import StoreUnavailable
from aliquot.service.views.terms import moment
from aliquot.store.tables import EVENTS
from aliquot_schema.errors import Forbidden, InvalidRequest
from aliquot_schema.events import Event
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller, PageRequest, Role
from aliquot_schema.resources.leases import Lease
from aliquot_schema.views.audit import AuditFilter, CursorPage
from ledger_workload import OPERATOR, RandomWorkload, workload_on
from store_places import Place

pytestmark = pytest.mark.anyio

ADMIN = Caller(user=UserId("root"), request_id="req_admin", role=Role.ADMIN)
ANYBODY = Caller(user=UserId("ann"), request_id="req_ann", role=Role.USER)
EVERYTHING = AuditFilter()


async def walk(ask: Callable[[PageRequest], Awaitable[CursorPage[Any]]], *, first: int) -> list[Any]:
    """All pages in order."""
    found: list[Any] = []
    after = None
    while True:
        reel = await ask(PageRequest(first=first, after=after))
        assert reel.has_previous is (after is not None)
        found += reel.items
        if not reel.has_next:
            return found
        after = reel.cursors[-1]


async def check_audit(
    place: Place, ask: Callable[[Auditing, RandomWorkload, tuple[Event, ...]], Awaitable[None]]
) -> None:
    """Query while the service is idle."""
    async with workload_on(place) as (workload, running):
        await workload.run_until_entries(running.ledger, 30)
        await ask(workload.service.administration.audit, workload, await running.events_after(0, limit=100_000))


async def test_every_change_is_listed_once_newest_first(place: Place) -> None:
    async def ask(office: Auditing, workload: RandomWorkload, events: tuple[Event, ...]) -> None:
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

    await check_audit(place, ask)


async def test_commands_are_visible_to_admins_only_and_secrets_to_no_user(place: Place) -> None:
    async def ask(office: Auditing, workload: RandomWorkload, events: tuple[Event, ...]) -> None:
        sessions = AuditFilter(kind="session.queued")
        by_operator = str(await walk(lambda page: office.audit(OPERATOR, sessions, page), first=100))
        by_admin = str(await walk(lambda page: office.audit(ADMIN, sessions, page), first=100))
        assert "TOKEN" in by_operator
        assert "hunter2" not in by_operator + by_admin
        assert ("a.py" in by_operator, "a.py" in by_admin) == (False, True)

    await check_audit(place, ask)


async def test_the_holder_of_a_device_at_a_time_is_found_by_one_query(place: Place) -> None:
    async def ask(office: Auditing, workload: RandomWorkload, events: tuple[Event, ...]) -> None:
        granted = [event.record for event in events if event.kind == "lease.granted"]
        lease = granted[len(granted) // 2]
        assert isinstance(lease, Lease)
        (slot, held), *_ = lease.spec.items()
        (device, *_) = held
        found = await office.held_by(OPERATOR, device, moment(lease.granted_us))
        (mine,) = [one for one in found if one.lease_id == lease.id]
        assert (mine.user, mine.slot, mine.since) == (lease.owner, slot, moment(lease.granted_us))
        assert await office.held_by(OPERATOR, "GPU-nowhere", moment(lease.granted_us)) == ()

    await check_audit(place, ask)


async def test_every_user_can_see_who_held_devices_in_a_period(place: Place) -> None:
    async def ask(office: Auditing, workload: RandomWorkload, events: tuple[Event, ...]) -> None:
        leases = [event.record for event in events if event.kind in ("lease.granted", "lease.released")]
        ended = [lease for lease in leases if isinstance(lease, Lease) and lease.released_us is not None]
        first_us, last_us = ended[0].granted_us, ended[-1].granted_us
        devices = {name for lease in ended for amounts in lease.spec.values() for name in amounts}
        for asked in (devices, set(sorted(devices)[:1]), {"GPU-nowhere"}):
            found = await office.device_timeline(
                ANYBODY, tuple(sorted(asked)), since=moment(first_us), until=moment(last_us)
            )
            expected = {
                lease.id
                for lease in ended
                if lease.granted_us <= last_us
                and (lease.released_us or 0) > first_us
                and any(name in asked for amounts in lease.spec.values() for name in amounts)
            }
            assert expected <= {one.lease_id for one in found}
            assert all(one.device_id in asked and one.since <= moment(last_us) for one in found)
        for until in (moment(first_us - 1), moment(first_us) + PERIOD_MAX * 2):
            with pytest.raises(InvalidRequest, match="period"):
                await office.device_timeline(ANYBODY, ("a",), since=moment(first_us), until=until)
        end = datetime.max.replace(tzinfo=UTC)
        assert await office.device_timeline(ANYBODY, ("a",), since=end - PERIOD_MAX / 2, until=end) == ()
        with pytest.raises(InvalidRequest, match="1000 devices"):
            await office.device_timeline(ANYBODY, ("a",) * 1001, since=moment(first_us), until=None)

    await check_audit(place, ask)


async def test_ledger_passes_list_their_decisions(place: Place) -> None:
    async def ask(office: Auditing, workload: RandomWorkload, events: tuple[Event, ...]) -> None:
        found = await walk(lambda page: office.ledger_passes(OPERATOR, page), first=11)
        numbers = [one.number for one in found]
        assert numbers == sorted(set(numbers), reverse=True)
        assert len(numbers) >= 30
        scheduled = {event.entity_id for event in events if event.kind == "session.scheduled"}
        assert scheduled & {name for one in found for name in one.placed}

    await check_audit(place, ask)


async def test_ordinary_users_and_foreign_cursors_are_refused(place: Place) -> None:
    async def ask(office: Auditing, workload: RandomWorkload, events: tuple[Event, ...]) -> None:
        page = PageRequest(first=10)
        for refused in (
            office.audit(ANYBODY, EVERYTHING, page),
            office.held_by(ANYBODY, "GPU-0", moment(0)),
            office.ledger_passes(ANYBODY, page),
            office.device_holdings(ANYBODY, "GPU-0", since=None, until=None, page=page),
            office.record_check(ANYBODY, since=None),
        ):
            with pytest.raises(Forbidden, match="operators"):
                await refused
        for cursor in ("nonsense", "YWJj"):
            with pytest.raises(InvalidRequest, match="not a cursor of this list"):
                await office.audit(OPERATOR, EVERYTHING, PageRequest(first=10, after=cursor))

    await check_audit(place, ask)


async def test_the_holders_of_a_period_are_listed_once_newest_first(place: Place) -> None:
    async def ask(office: Auditing, workload: RandomWorkload, events: tuple[Event, ...]) -> None:
        leases = [event.record for event in events if isinstance(event.record, Lease)]
        granted = {lease.id: device for lease in leases for amounts in lease.spec.values() for device in amounts}
        (device, _), *_ = Counter(granted.values()).most_common()
        whole = partial(office.device_holdings, OPERATOR, device)
        found = await walk(lambda page: whole(since=None, until=None, page=page), first=2)
        starts = [one.since for one in found]
        assert len(found) > 2
        assert starts == sorted(starts, reverse=True)
        middle = found[len(found) // 2].since
        early = await walk(lambda page: whole(since=None, until=middle, page=page), first=3)
        late = await walk(lambda page: whole(since=middle, until=starts[0], page=page), first=3)
        assert [one.lease_id for one in early] == [one.lease_id for one in found if one.since <= middle]
        # A holding may be released between the queries.
        assert [one.lease_id for one in late] == [
            one.lease_id for one in found if one.until is None or one.until > middle
        ]

    await check_audit(place, ask)


async def test_the_record_is_verified_while_the_server_writes(place: Place) -> None:
    async def ask(office: Auditing, workload: RandomWorkload, events: tuple[Event, ...]) -> None:
        both = await asyncio.gather(
            office.record_check(OPERATOR, since=None), office.record_check(OPERATOR, since=None)
        )
        assert both[0] == both[1]
        (found, _) = both
        assert found.faults == ()
        assert found.events >= len(events)
        assert found.ended_at is not None
        assert min(found.passes, found.holdings) > 0
        again = await office.record_check(OPERATOR, since=found.started_at)
        assert again == found, "it is not repeated for the same moment"
        assert (await office.record_check(OPERATOR, since=None)).started_at > found.started_at

    await check_audit(place, ask)


async def test_a_changed_event_is_reported_by_the_server(place: Place) -> None:
    async with workload_on(place) as (workload, running):
        await workload.run_until_entries(running.ledger, 30)

        def change(connection: Connection) -> None:
            with connection.begin():
                connection.execute(update(EVENTS).where(EVENTS.c.number == 7).values(actor="mallory"))

        await running.write(change)
        found = await workload.service.administration.audit.record_check(OPERATOR, since=None)
        assert found.faults == ("event 7 was changed after it was written",)
        assert found.events == 0


async def test_a_verification_ends_when_the_store_is_closed(place: Place) -> None:
    async with workload_on(place) as (_, running):
        begun, loop = asyncio.Event(), asyncio.get_running_loop()

        def read(connection: Connection) -> None:
            while True:
                connection.execute(select(EVENTS.c.number).limit(1)).all()
                loop.call_soon_threadsafe(begun.set)

        reading = asyncio.create_task(running.read_apart(read))
        async with asyncio.timeout(60):
            await begun.wait()
            await running.close()
            with pytest.raises(StoreUnavailable, match="the store is not open"):
                await reading
