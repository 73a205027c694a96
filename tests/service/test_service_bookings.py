"""Bookings by users: accepted or refused by a pass, used by name, extended, given back and released."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any, TypeVar

import pytest
from dateutil.rrule import rrulestr
from msgspec.structs import replace

from aliquot.service.bookings import GPU_HOUR
from aliquot.service.recurrence import occurrences
from aliquot.service.views.terms import moment
from aliquot_schema.bookings import BookingState
from aliquot_schema.errors import (
    AliquotError,
    BookingRefused,
    Forbidden,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    StateConflict,
    Unavailable,
)
from aliquot_schema.ids import AgentId, ProjectId, UserId, kernel_id
from aliquot_schema.reasons import Reason
from aliquot_schema.requests import NewBooking, NewSession, Role
from aliquot_schema.resources.devices import DeviceHealth
from aliquot_schema.sessions import PreemptionCause
from aliquot_schema.states import SessionState as S
from aliquot_schema.views.bookings import BookingChanged
from service_bench import agent, gpus
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio

BOB = replace(CALLER, user=UserId("bob"), role=Role.USER)
OPERATOR = replace(CALLER, user=UserId("op"), role=Role.OPERATOR)
T = TypeVar("T")
HOUR = timedelta(hours=1)


@asynccontextmanager
async def passes(on: Stage) -> AsyncIterator[None]:
    """Run passes continuously, as a server does."""
    task = asyncio.create_task(on.allocator.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def called(on: Stage, call: Awaitable[T]) -> T:
    async with passes(on), asyncio.timeout(60):
        return await call


async def reserve(on: Stage, name: str = "exp", *, starts: timedelta = HOUR, **more: Any) -> BookingChanged:
    starts_at = moment(on.clock.now_us()) + starts
    asked = NewBooking(name=name, starts_at=starts_at, ends_at=more.pop("ends_at", starts_at + HOUR), **more)
    made = await called(on, on.bookings.reserve(CALLER, asked))
    on.check()
    return made


def request(**more: Any) -> NewSession:
    return NewSession(argv=("true",), shell=None, slots=[("cuda.device", "1")], **more)


async def test_a_booking_is_listed_and_a_second_booking_of_its_devices_is_refused() -> None:
    async with stage([agent("a", devices=2)]) as on:
        made = (await reserve(on, gpus=2)).booking
        assert (made.state, made.gpus, [gpu.device_id for gpu in made.devices]) == (
            BookingState.BOOKED,
            2,
            ["a-gpu-0", "a-gpu-1"],
        )
        with pytest.raises(BookingRefused, match=r"0 GPUs can be free for the whole window, and 1 were asked for"):
            await reserve(on, "other", starts=HOUR / 2, gpus=1, ends_at=moment(on.clock.now_us()) + 2 * HOUR)
        assert [one.name for one in on.bookings.bookings(BOB)] == ["exp"]
        found = on.bookings.bookings(BOB, with_ended=True)
        assert {one.name: one.state for one in found} == {"exp": BookingState.BOOKED, "other": BookingState.REFUSED}
        assert on.bookings.bookings(BOB, until=made.starts_at) == ()
        assert on.bookings.bookings(BOB, owner="nobody") == ()


async def test_a_session_is_submitted_into_a_booking_by_name_and_starts_with_it() -> None:
    async with stage([agent("a", devices=2)]) as on:
        made = (await reserve(on, devices=["a/a-gpu-1"])).booking
        mine = await on.submit(booking="exp")
        assert (await on.queries.session(CALLER, mine)).booking == made.id
        await on.advance()
        assert on.state.verdicts[mine].reason is Reason.NOT_BEFORE
        endless = [await on.submit(), await on.submit()]
        await on.advance()
        assert [on.session(name).state for name in endless] == [S.RUNNING, S.QUEUED]
        assert on.state.verdicts[endless[1]].evidence.booking == "exp"
        on.clock.advance(3601)
        await on.advance()
        assert on.session(mine).state is S.RUNNING
        (shown,) = on.bookings.bookings(CALLER)
        assert (shown.is_active, shown.sessions, shown.used_at is not None) == (True, (mine,), True)
        assert [device.device_id for device in shown.devices] == [gpu.device_id for gpu in made.devices] == ["a-gpu-1"]


async def test_only_its_owner_its_project_and_operators_use_a_booking() -> None:
    async with stage([agent("a", devices=2)]) as on:
        booking_id = (await reserve(on)).booking.id
        with pytest.raises(InvalidRequest, match="there is no open booking exp of yours"):
            await on.sessions.create_session(BOB, request(booking="exp"))
        with pytest.raises(Forbidden, match="exp belongs to"):
            await on.sessions.create_session(BOB, request(booking=booking_id))
        with pytest.raises(Forbidden, match="only its owner and operators may change it"):
            await on.bookings.give_back(BOB, booking_id)
        await on.create_project("vision")
        await reserve(on, "shared", project="vision")
        member = replace(BOB, projects=(ProjectId("vision"),))
        await on.sessions.create_session(member, request(booking="shared"))


async def test_preemptible_sessions_are_preempted_for_a_session_of_the_booking() -> None:
    async with stage([agent("a", devices=1)]) as on:
        guest = await on.submit(preemptible=True)
        await on.advance()
        await reserve(on)
        on.clock.advance(3601)
        mine = await on.submit(booking="exp")
        await on.allocator.run_once()
        preempted = on.session(guest)
        assert preempted.state is S.PREEMPTING
        assert preempted.preemption is not None
        assert (preempted.preemption.cause, preempted.preemption.by_session) == (PreemptionCause.BOOKING, mine)


async def test_an_operator_can_name_a_booking_of_another_user_if_the_name_is_unique() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await reserve(on)
        operator = replace(BOB, user=UserId("op"), role=Role.OPERATOR)
        theirs = NewBooking(
            name="exp", starts_at=moment(on.clock.now_us()) + HOUR, ends_at=moment(on.clock.now_us()) + 2 * HOUR, gpus=1
        )
        booking_id = (await called(on, on.bookings.reserve(BOB, theirs))).booking.id
        with pytest.raises(NotFound, match="if several people have one of that name, give its id"):
            await on.bookings.give_back(operator, "exp")
        await on.bookings.give_back(operator, booking_id)
        assert (await on.bookings.give_back(operator, "exp")).booking.state is BookingState.CANCELED


async def test_a_booking_is_extended_shortened_and_given_back() -> None:
    async with stage([agent("a", devices=1)]) as on:
        made = (await reserve(on)).booking
        longer = await called(on, on.bookings.extend(CALLER, "exp", made.ends_at + HOUR))
        assert longer.booking.ends_at == made.ends_at + HOUR
        await reserve(on, "next", starts=3 * HOUR)
        with pytest.raises(BookingRefused, match=r"a-gpu-0 on node .* is booked by .* \(next\)"):
            await called(on, on.bookings.extend(CALLER, "exp", made.ends_at + 2 * HOUR))
        shorter = await called(on, on.bookings.extend(CALLER, "exp", made.ends_at))
        assert shorter.booking.ends_at == made.ends_at
        assert (await on.bookings.give_back(CALLER, "exp")).booking.state is BookingState.CANCELED
        on.clock.advance(3 * 3600 + 1)
        assert (await on.bookings.give_back(CALLER, "next")).booking.state is BookingState.GIVEN_BACK
        assert (await on.bookings.give_back(CALLER, made.id)).booking.state is BookingState.CANCELED
        with pytest.raises(NotFound):
            await on.bookings.give_back(CALLER, "next")


async def test_a_booking_is_extended_while_its_gpu_is_lost() -> None:
    async with stage([agent("a", devices=3)]) as on:
        made = (await reserve(on, gpus=1)).booking
        lost, *good = gpus(3)
        assert [gpu.device_id for gpu in made.devices] == [lost.id]
        on.executor.change_devices(AgentId("a"), (replace(lost, health=DeviceHealth.UNHEALTHY), *good))
        await on.settle()
        longer = (await called(on, on.bookings.extend(CALLER, "exp", made.ends_at + HOUR))).booking
        assert (longer.state, longer.ends_at) == (BookingState.BOOKED, made.ends_at + HOUR)
        assert [gpu.device_id for gpu in longer.devices] == [good[0].id]


async def test_an_unused_booking_is_released_as_a_no_show_and_waiting_sessions_start() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await reserve(on, no_show_after=60.0)
        waits = await on.submit()
        await on.advance()
        assert on.session(waits).state is S.QUEUED
        on.clock.advance(3600 + 61)
        await on.advance()
        assert on.session(waits).state is S.RUNNING
        (shown,) = on.bookings.bookings(CALLER, with_ended=True)
        assert shown.state is BookingState.NO_SHOW
        kinds = [event.kind for event in await on.events() if event.kind.startswith("booking.")]
        assert kinds == ["booking.requested", "booking.booked", "booking.no_show"]


async def test_operators_book_nodes_for_maintenance() -> None:
    async with stage([agent("a", devices=1), agent("b", devices=1)]) as on:
        starts_at = moment(on.clock.now_us()) + HOUR
        asked = NewBooking(name="disks", starts_at=starts_at, ends_at=starts_at + HOUR, nodes=["a"])
        with pytest.raises(Forbidden):
            await on.bookings.reserve(BOB, asked)
        made = (await called(on, on.bookings.reserve(OPERATOR, asked))).booking
        assert (made.gpus, len(made.nodes), made.no_show_after) == (0, 1, None)
        started = [await on.submit(), await on.submit()]
        await on.advance()
        assert sorted(on.session(name).state for name in started) == [S.QUEUED, S.RUNNING]
        assert list(on.held()) == ["b-gpu-0"]


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"starts": -HOUR}, InvalidRequest, "starts_at: it is in the past"),
        ({"starts": timedelta(days=400)}, LimitExceeded, "starts at most 366 d from now"),
        ({"ends_at": moment(0)}, InvalidRequest, "a window lasts at least a minute"),
        ({"gpus": 0}, InvalidRequest, "gpus: 0 is less than 1"),
        ({"devices": ["cuda9"]}, InvalidRequest, "devices: cuda9 is not known"),
        ({"devices": ["a/a-gpu-0"], "gpus": 2}, InvalidRequest, "1 devices are named"),
        ({"nodes": ["nowhere"]}, InvalidRequest, "nodes: nowhere is unknown"),
        ({"name": ""}, InvalidRequest, "name: it is empty"),
        ({"project": "secret"}, AliquotError, "secret"),
        ({"gpus": 3}, BookingRefused, "Pool default has 2 GPUs, and 3 were asked for"),
        ({"models": ["A100"]}, BookingRefused, "Pool default has 0 GPUs of model A100"),
    ],
)
async def test_an_invalid_booking_request_is_refused_with_the_reason(
    fields: dict[str, Any], error: type[Exception], words: str
) -> None:
    async with stage([agent("a", devices=2)]) as on:
        with pytest.raises(error, match=words):
            await reserve(on, **({"name": "exp"} | fields))
        assert on.bookings.bookings(CALLER) == ()


async def test_an_owner_cannot_have_two_open_bookings_of_one_name() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await reserve(on)
        with pytest.raises(StateConflict, match="you have an open booking named exp"):
            await reserve(on)
        await on.bookings.give_back(CALLER, "exp")
        await reserve(on)


async def test_idle_time_of_a_booking_is_charged_to_its_owner_when_it_ends() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await reserve(on, gpus=2, starts=timedelta(minutes=1), no_show_after=3600.0)
        on.clock.advance(61)
        mine = await on.submit(booking="exp")
        await on.advance()
        assert on.session(mine).state is S.RUNNING
        on.clock.advance(1800)
        given = (await on.bookings.give_back(CALLER, "exp")).booking
        assert given.held_back_gpu_hours == pytest.approx(0.5, abs=0.01)  # the other GPU, for half an hour
        (account,) = on.state.accounts.values()
        balance = on.state.usage.balances[account.project, account.user]
        assert account.charged == balance.charged
        assert account.charged == pytest.approx(1.0 * GPU_HOUR, rel=0.02)  # including its session's use so far


async def test_time_held_by_sessions_of_a_booking_is_not_charged_twice() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await reserve(on, starts=timedelta(minutes=1))
        on.clock.advance(61)
        mine = await on.submit(booking="exp")
        await on.advance()
        on.clock.advance(900)
        on.executor.end_kernel(kernel_id(mine, attempt=1, rank=0))
        await on.settle()
        on.clock.advance(900)
        given = (await on.bookings.give_back(CALLER, "exp")).booking
        assert given.held_back_gpu_hours == pytest.approx(0.25, abs=0.01)
        (account,) = on.state.accounts.values()
        assert account.charged == pytest.approx(0.5 * GPU_HOUR, rel=0.02)


async def test_a_booking_that_never_began_costs_nothing() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await reserve(on)
        assert (await on.bookings.give_back(CALLER, "exp")).booking.held_back_gpu_hours == 0
        assert on.state.accounts == {}


async def test_a_booking_series_can_be_given_back_as_a_whole() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await reserve(on, "other", starts=timedelta(days=7, hours=1))
        starts = moment(on.clock.now_us()).replace(microsecond=0) + HOUR
        asked = NewBooking(
            name="course",
            starts_at=starts,
            ends_at=starts + HOUR,
            repeats="FREQ=WEEKLY;UNTIL=19700201",
            time_zone="Europe/Berlin",
        )
        made = await called(on, on.bookings.reserve(CALLER, asked))
        found = [made.booking, *made.others]
        assert [one.name for one in found] == [f"course-1970-01-{day:02}" for day in (1, 8, 15, 22, 29)]
        assert {one.series for one in found} == {"course"}
        refused = [one for one in found if one.state is BookingState.REFUSED]
        assert [one.name for one in refused] == ["course-1970-01-08"]
        with pytest.raises(StateConflict, match="you have an open booking named"):
            await called(on, on.bookings.reserve(CALLER, asked))
        given = await on.bookings.give_back(CALLER, "course", series=True)
        assert [one.state for one in (given.booking, *given.others)] == [BookingState.CANCELED] * 4
        assert [one.name for one in on.bookings.bookings(CALLER)] == ["other"]


def test_repeated_bookings_keep_the_local_time_of_day_over_a_clock_change() -> None:
    first = datetime(2027, 3, 23, 8, tzinfo=UTC)
    found = occurrences(first, "FREQ=WEEKLY;BYDAY=TU;COUNT=2", time_zone="Europe/Berlin")
    assert [at.hour for at in found] == [9, 9]
    assert [at.astimezone(UTC).hour for at in found] == [8, 7]
    for hour in (0, 1):  # 02:30 comes twice in this night
        asked = datetime(2026, 10, 25, hour, 30, tzinfo=UTC)
        [at] = occurrences(asked, "FREQ=DAILY;COUNT=1", time_zone="Europe/Berlin")
        assert at.astimezone(UTC) == asked


@pytest.mark.parametrize(
    ("rule", "zone", "words"),
    [
        ("FREQ=SOMETIMES", None, "is no recurrence rule"),
        ("FREQ=MINUTELY;BYSECOND=0;BYSETPOS=200", None, "use FREQ=DAILY, WEEKLY, MONTHLY or YEARLY"),
        ("FREQ=SECONDLY;BYSETPOS=2", None, "use FREQ=DAILY"),
        ("FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30", None, "use FREQ=DAILY"),
        ("FREQ=DAILY;INTERVAL=0", None, "use FREQ=DAILY"),
        ("FREQ=MONTHLY;BYDAY=+53MO", None, "is no recurrence rule"),
        ("COUNT=2", None, "is no recurrence rule"),
        ("UNTIL=20270201", None, "is no recurrence rule"),
        ("FREQ=DAILY;UNTIL=20270230", None, "is no recurrence rule"),
        ("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", None, "the rule has no window"),
        ("FREQ=DAILY;BYSETPOS=2;UNTIL=20300101", None, "the rule has no window"),
        ("FREQ=WEEKLY;BYMONTHDAY=1;BYSETPOS=100", None, "the rule has no window"),
        ("FREQ=DAILY;UNTIL=19690101", None, "the rule has no window"),
        ("FREQ=DAILY;COUNT=2", "Mars/Base", "time_zone: 'Mars/Base' is unknown"),
    ],
)
def test_an_invalid_repetition_rule_is_refused_with_the_reason(rule: str, zone: str | None, words: str) -> None:
    began_s = time.process_time()
    with pytest.raises(InvalidRequest, match=words):
        occurrences(moment(0), rule, time_zone=zone)
    assert time.process_time() - began_s < 1, "the server stood still"


@pytest.mark.parametrize("year", [2026, 2027, 2028, 2096, 2098, 2099, 2100])
@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=WEEKLY;BYDAY=MO,WE,FR;WKST=SU;INTERVAL=2",
        "RRULE:FREQ=MONTHLY;BYDAY=-1FR",
        "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1,1",
        "freq=monthly;bymonthday=29,-1;count=9",
        "FREQ=YEARLY;BYMONTH=2,3;BYDAY=1MO",
        "BYDAY=SA,SU;FREQ=DAILY;INTERVAL=3",
    ],
)
def test_occurrences_of_a_repetition_rule_equal_those_of_rrulestr(rule: str, year: int) -> None:
    first = datetime(year, 12, 30, 9, tzinfo=UTC)
    last = (first + timedelta(days=366)).replace(tzinfo=None)
    wanted = takewhile(lambda at: at <= last, rrulestr(rule, dtstart=first.replace(tzinfo=None)))
    assert occurrences(first, rule, time_zone=None) == [at.replace(tzinfo=UTC) for at in wanted]


async def test_a_booking_series_that_is_not_decided_in_time_is_canceled_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aliquot.service.bookings.PASS_WAIT_S", 0.05)
    async with stage([agent("a", devices=1)]) as on:
        starts = moment(on.clock.now_us()).replace(microsecond=0) + HOUR
        asked = NewBooking(name="course", starts_at=starts, ends_at=starts + HOUR, repeats="FREQ=WEEKLY;COUNT=3")
        with pytest.raises(Unavailable, match="nothing can be booked"):
            await on.bookings.reserve(CALLER, asked)
        await on.advance()
        assert on.bookings.bookings(CALLER) == ()
        found = on.bookings.bookings(CALLER, with_ended=True)
        assert [one.state for one in found] == [BookingState.CANCELED] * 3


async def test_the_effect_of_a_booking_names_delayed_sessions_and_books_nothing() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await on.sessions.create_session(CALLER, request(time_limit=3600.0))
        await on.advance()
        late = (await on.sessions.create_session(BOB, request(time_limit=7200.0))).session
        await on.advance()
        starts_at = moment(on.clock.now_us()) + 2 * HOUR
        asked = NewBooking(name="x", starts_at=starts_at, ends_at=starts_at + HOUR)
        found = await on.booking_effects.effect(CALLER, asked)
        assert (found.refusal, found.delayed, found.delayed_count) == (None, (late.id,), 1)
        assert found.delay_max == pytest.approx(2 * 3600, abs=60)
        wide = await on.booking_effects.effect(CALLER, replace(asked, gpus=2))
        assert "2 were asked for" in (wide.refusal or "")
        assert on.bookings.bookings(CALLER) == ()
        with pytest.raises(InvalidRequest):
            await on.booking_effects.effect(CALLER, replace(asked, ends_at=starts_at))
