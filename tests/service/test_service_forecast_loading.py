"""Loading forecast records: sessions that end meanwhile, and a database that fails."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from aliquot.core.foresight.shown_forecasts import DAY_US, ForecastOutcome, ForecastRecord
from aliquot.service.foresight.learning import Learner, PastSessions
from aliquot.service.foresight.process_messages import Ended
from aliquot.service.foresight.records import Recorder
from aliquot.service.metrics.counters import ForecastMeasures
from aliquot.service.ports import Store, StoreUnavailable
from aliquot.store.open import open_store
from aliquot.store.store import DatabaseStore
from aliquot_schema.events import Event
from aliquot_schema.ids import SessionId, kernel_id, task_id
from aliquot_schema.intervals import Intervals
from forecast_records import packed_record, shown_forecast
from service_bench import agent
from service_stage import Stage, stage

pytestmark = pytest.mark.anyio


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[DatabaseStore]:
    store = open_store("", data_folder=tmp_path, now_us=lambda: 1)
    await store.open()
    yield store
    await store.close()


class Interrupted:
    """A store's events, with an action during the first read."""

    def __init__(self, store: Store, what: Callable[[], Awaitable[None]]) -> None:
        self._store, self._what, self._read = store, what, 0

    async def session_steps(self, session_id: SessionId, **query: Any) -> tuple[Event, ...]:
        found = await self._store.session_steps(session_id, **query)
        self._read += 1
        if self._read == 1:
            await self._what()
        return found


def recorder(on: Stage, database: DatabaseStore) -> Recorder:
    made = Recorder(on.state, store=database.forecasts, measures=ForecastMeasures())
    on.journal.subscribe(made.on_event)
    return made


async def end(on: Stage, session_id: SessionId) -> None:
    on.executor.end_kernel(kernel_id(session_id, attempt=1, rank=0))
    await on.settle()
    await on.advance()


async def submitted(on: Stage) -> SessionId:
    name = await on.submit()
    await on.advance()
    return name


async def moved_on(on: Stage, database: DatabaseStore) -> tuple[SessionId, SessionId]:
    """A session that started while no server recorded it, and one still waiting; both have open records."""
    first, second, third = await submitted(on), await submitted(on), await submitted(on)
    await database.forecasts.add([packed_record(name, on.clock.now_us()) for name in (second, third)])
    on.clock.advance(20 * 60)
    await end(on, first)
    return second, third


async def stored(database: DatabaseStore) -> dict[str, ForecastRecord]:
    return {record.session_id: record for record in await database.forecasts.page(None, since_us=0, limit=100)}


@pytest.mark.parametrize("how", ["starts", "is canceled"])
async def test_changes_of_sessions_while_forecast_records_are_loaded_are_recorded(
    database: DatabaseStore, how: str
) -> None:
    async with stage([agent("a", devices=1)]) as on:
        second, third = await moved_on(on, database)
        made = recorder(on, database)

        async def move_on() -> None:
            await (end(on, second) if how == "starts" else on.cancel(third))
            made.note([shown_forecast(third, on.clock.now_us(), (1, 2, 3))])

        events: Any = Interrupted(on.store, move_on)
        await made.load(events=events, now_us=on.clock.now_us())
        await made.flush(now_us=on.clock.now_us())
        found, session = await stored(database), on.state.sessions[third]
        assert found[second].outcome is ForecastOutcome.STARTED
        outcome = ForecastOutcome.STARTED if how == "starts" else ForecastOutcome.CANCELED
        assert (found[third].outcome, found[third].settled_us) == (outcome, session.scheduled_us or session.ended_us)
        assert [score.session_id for score in made.scores() if score.ended_us is None] == [second, third]


async def test_a_session_that_starts_without_waiting_during_loading_is_counted(database: DatabaseStore) -> None:
    async with stage([agent("a", devices=1)]) as on:
        second, third = await moved_on(on, database)
        made = recorder(on, database)

        async def start_another() -> None:
            await on.cancel(third)
            await end(on, second)
            await submitted(on)

        events: Any = Interrupted(on.store, start_another)
        await made.load(events=events, now_us=on.clock.now_us())
        assert await made.flush(now_us=on.clock.now_us()) == ((on.clock.now_us() // DAY_US, 1),)


async def test_records_that_are_loaded_again_after_a_failure_are_there_once(database: DatabaseStore) -> None:
    async with stage([agent("a", devices=1)]) as on:
        second, third = await moved_on(on, database)
        made = recorder(on, database)

        async def fail() -> None:
            raise StoreUnavailable("the database is locked")

        events: Any = Interrupted(on.store, fail)
        with pytest.raises(StoreUnavailable):
            await made.load(events=events, now_us=on.clock.now_us())
        await made.load(events=events, now_us=on.clock.now_us())
        assert [score.session_id for score in made.scores()] == [second]
        await on.cancel(third)
        assert [score.session_id for score in made.scores()] == [third]


async def test_a_canceled_array_is_taught_with_its_canceled_tasks() -> None:
    """From the store as from the events. Its row has all tasks by their indices."""
    async with stage([agent("a", devices=1)]) as on:
        learner = Learner(on.state.pending)
        on.journal.subscribe(learner.on_event)
        first = await submitted(on)
        array = await on.submit(array="3-5")
        await on.advance()
        await end(on, first)
        task = task_id(array, index=3)
        await on.cancel(array)
        await end(on, task)
        read = [one async for page in PastSessions(on.store, on.clock).pages() for one in page]
        for found in (learner.take(), read):
            tasks = {type(one).__name__: one.tasks for one in found if one.session_id == array}
            assert tasks == {"PendingRow": Intervals.parse("3-5"), "Ended": Intervals.parse("3-5")}
            runs = {one.session_id: one.run for one in found if isinstance(one, Ended)}
            assert None not in (runs[first], runs[task])
            assert runs[array] is None
