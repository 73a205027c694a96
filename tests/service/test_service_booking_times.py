"""Booking times: at the calendar's limits, and repeated across daylight-saving changes."""

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from aliquot.service.views.terms import moment
from aliquot_schema.errors import InvalidRequest, LimitExceeded
from aliquot_schema.requests import NewBooking
from service_bench import agent
from service_stage import CALLER, stage

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)


async def test_times_at_the_limits_of_the_calendar_cause_no_crash() -> None:
    async with stage([agent("a", devices=2)]) as on:
        first = datetime.min.replace(tzinfo=timezone(5 * HOUR))
        last = datetime.max.replace(tzinfo=timezone(-5 * HOUR))
        assert on.bookings.bookings(CALLER, since=first, until=last) == ()
        with pytest.raises(InvalidRequest, match="starts_at: it is in the past"):
            await on.bookings.reserve(CALLER, NewBooking(name="old", starts_at=first, ends_at=last))
        soon = moment(on.clock.now_us()) + HOUR
        with pytest.raises(LimitExceeded, match="ends_at: a booking lasts at most 31 d"):
            await on.bookings.reserve(CALLER, NewBooking(name="long", starts_at=soon, ends_at=last))


@pytest.mark.parametrize(
    ("starts_at", "lasts", "starts", "hours"),
    [
        ("2026-10-24T20:00", 12 * HOUR, ["24 20:00", "25 21:00"], [12, 12]),
        ("2026-10-24T00:30", HOUR, ["24 00:30", "25 00:30", "26 01:30"], [1, 1, 1]),
        ("2027-03-27T01:30", HOUR / 2, ["27 01:30", "28 01:30", "29 00:30"], [0.5, 0.5, 0.5]),
        ("2026-10-23T22:00", 24 * HOUR, ["23 22:00", "24 22:00", "25 23:00"], [24, 25, 24]),
        ("2027-03-27T23:00", 23 * HOUR, ["27 23:00", "28 22:00"], [23, 24]),
        ("2026-10-23T22:00", 12 * HOUR, ["23 22:00", "24 22:00", "25 23:00"], [12, 12, 12]),
    ],
)
async def test_repeated_bookings_keep_their_length_or_whole_days_over_a_clock_change(
    starts_at: str, lasts: timedelta, starts: list[str], hours: list[float]
) -> None:
    first = datetime.fromisoformat(f"{starts_at}+00:00")
    async with stage([agent("a", devices=1)]) as on:
        on.clock.advance((first - moment(on.clock.now_us())) / timedelta(seconds=1) - 3600)
        asked = NewBooking(
            name="night",
            starts_at=first.astimezone(ZoneInfo("Europe/Berlin")),
            ends_at=(first + lasts).astimezone(ZoneInfo("Europe/Berlin")),
            repeats=f"FREQ=DAILY;COUNT={len(starts)}",
            time_zone="Europe/Berlin",
        )
        windows = on.bookings.wanted(CALLER, asked)
    assert [f"{moment(one.starts_us):%d %H:%M}" for one in windows] == starts
    assert [(one.ends_us - one.starts_us) / 3_600_000_000 for one in windows] == hours
