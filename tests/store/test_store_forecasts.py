"""Forecast records: written once, settled at any age, read in order, removed by age."""

from collections.abc import AsyncIterator
from hashlib import sha256

import pytest
from msgspec.structs import replace

from aliquot.core.foresight.bands import Band
from aliquot.core.foresight.forecast import Features, Forecast
from aliquot.core.foresight.shown_forecasts import (
    DAY_US,
    ForecastOutcome,
    PackedRecord,
    SessionOutcome,
    ShownForecast,
)
from aliquot.service.foresight.ports import PublishedBoard
from aliquot.store.forecasts import FORMAT
from aliquot.store.store import DatabaseStore
from forecast_records import HOUR_US, packed_record, record
from store_places import Place

pytestmark = pytest.mark.anyio

NOW_US = 100 * DAY_US


@pytest.fixture
async def opened(place: Place) -> AsyncIterator[DatabaseStore]:
    store = place.store()
    assert isinstance(store, DatabaseStore)
    await store.open()
    yield store
    await store.close()


async def test_a_forecast_record_is_read_unchanged_and_never_overwritten(opened: DatabaseStore) -> None:
    first, unknown = record("ses_a", NOW_US), record("ses_b", NOW_US + 1, None)
    recent = {"recent_us": Band(1, 2, 3), "alike": 214, "alike_inside": 0.81}
    first = replace(first, shown=replace(first.shown, **recent))
    await opened.forecasts.add([PackedRecord.of(first), PackedRecord.of(unknown)])
    await opened.forecasts.add([packed_record("ses_a", NOW_US + 5, (1, 2, 3))])
    assert await opened.forecasts.page(None, since_us=0, limit=10) == (first, unknown)
    assert await opened.forecasts.page(first, since_us=0, limit=10) == (unknown,)
    assert await opened.forecasts.page(None, since_us=NOW_US + 1, limit=10) == (unknown,)


async def test_an_outcome_closes_the_forecast_records_of_all_ages(opened: DatabaseStore) -> None:
    ages = [packed_record("ses_a", NOW_US), packed_record("ses_a", NOW_US + HOUR_US, age_s=3600)]
    other = packed_record("ses_b", NOW_US)
    await opened.forecasts.add([*ages, other])
    late = SessionOutcome(session_id=ages[0].session_id, outcome=ForecastOutcome.LATE)
    started = SessionOutcome(
        session_id=ages[0].session_id, outcome=ForecastOutcome.STARTED, settled_us=NOW_US + 2 * HOUR_US
    )
    await opened.forecasts.settle([late])
    assert {one.outcome for one in await opened.forecasts.open_records(since_us=0)} == {"late", "waiting"}
    await opened.forecasts.settle([late, started])
    assert {(one.session_id, one.age_s, one.settled_us) for one in await opened.forecasts.open_records(since_us=0)} == {
        ("ses_a", 0, NOW_US + 2 * HOUR_US),
        ("ses_a", 3600, NOW_US + 2 * HOUR_US),
        ("ses_b", 0, None),
    }
    ended = SessionOutcome(
        session_id=ages[0].session_id,
        outcome=ForecastOutcome.STARTED,
        settled_us=NOW_US + 2 * HOUR_US,
        ended_us=NOW_US + 3 * HOUR_US,
    )
    await opened.forecasts.settle([ended])
    assert await opened.forecasts.open_records(since_us=0) == (other,)
    assert await opened.forecasts.settled(limit=5) == (ended.of(ages[0]),)
    assert await opened.forecasts.open_records(since_us=NOW_US + 1) == ()


async def test_daily_counts_are_summed_and_old_records_are_removed(opened: DatabaseStore) -> None:
    for day, count in ((3, 2), (90, 1), (90, 4)):
        await opened.forecasts.count_at_once(day, count)
    assert await opened.forecasts.days() == ((3, 2), (90, 5))
    days = {"ses_a": 3, "ses_b": 4, "ses_c": 95}
    await opened.forecasts.add([packed_record(name, day * DAY_US) for name, day in days.items()])
    assert await opened.forecasts.remove(10 * DAY_US, limit=1) == 1
    assert await opened.forecasts.remove(10 * DAY_US, limit=5) == 1
    assert await opened.forecasts.remove(10 * DAY_US, limit=5) == 0
    assert [one.session_id for one in await opened.forecasts.page(None, since_us=0, limit=10)] == ["ses_c"]
    assert await opened.forecasts.days() == ((90, 5),)


async def test_followers_read_the_last_forecast_published_in_the_current_term(opened: DatabaseStore) -> None:
    epoch = (await opened.begin_term()).epoch
    assert await opened.forecasts.newest((0, 0)) is None
    await opened.forecasts.put(PublishedBoard(epoch=epoch, number=1, body=b"one"))
    await opened.forecasts.put(PublishedBoard(epoch=epoch, number=2, body=b"two"))
    found = await opened.forecasts.newest((0, 0))
    assert found == PublishedBoard(epoch=epoch, number=2, body=b"two")
    assert await opened.forecasts.newest((epoch, 2)) is None
    later = (await opened.begin_term()).epoch
    assert await opened.forecasts.newest((0, 0)) is None
    await opened.forecasts.put(PublishedBoard(epoch=later, number=1, body=b"new"))
    await opened.forecasts.put(PublishedBoard(epoch=epoch, number=3, body=b"old"))
    found = await opened.forecasts.newest((0, 0))
    assert found is not None
    assert found.body == b"new"


def test_a_change_of_the_fields_of_a_forecast_comes_with_another_format_of_the_board() -> None:
    """Fields are encoded by their order: after a change here, raise `FORMAT` in aliquot.store.forecasts."""
    fields = [kind.__struct_fields__ for kind in (ShownForecast, Forecast, Features)]
    assert (FORMAT, sha256(repr(fields).encode()).hexdigest()[:16]) == (2, "0140458ea5d90126")
