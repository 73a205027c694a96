"""Forecast records over the life of sessions, and what the forecast process is sent."""

import pickle
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aliquot.core.foresight.scoring import AccuracyReport
from aliquot.core.foresight.shown_forecasts import ForecastOutcome, ForecastRecord, ShownForecast
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow
from aliquot.service.foresight.learning import Learner, PastSessions
from aliquot.service.foresight.process_messages import Ended, ForecastRequest, SnapshotDifference, SnapshotMirror
from aliquot.service.foresight.process_messages import RowChanges as Rows
from aliquot.service.foresight.records import Recorder
from aliquot.service.foresight.relay import BoardPublisher, BoardReceiver, packed, unpacked
from aliquot.service.metrics.counters import ForecastMeasures
from aliquot.service.ports import SessionQuery
from aliquot.service.state.forecast_board import ForecastBoard
from aliquot.service.state.snapshots import take
from aliquot.store.open import open_store
from aliquot.store.store import DatabaseStore
from aliquot_schema.ids import SessionId, kernel_id
from aliquot_schema.views.forecasts import ForecastView
from forecast_records import HOUR_US, MINUTE_US, forecast, packed_record, shown_forecast
from service_bench import agent
from service_stage import CALLER, Stage, StepClock, stage

pytestmark = pytest.mark.anyio


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[DatabaseStore]:
    store = open_store("", data_folder=tmp_path, now_us=lambda: 1)
    await store.open()
    yield store
    await store.close()


def recorder(on: Stage, database: DatabaseStore) -> Recorder:
    made = Recorder(on.state, store=database.forecasts, measures=ForecastMeasures())
    on.journal.subscribe(made.on_event)
    return made


async def waiting(on: Stage) -> tuple[SessionId, SessionId]:
    """A session that holds the only device, and one waiting for it."""
    first = await on.submit()
    await on.advance()
    second = await on.submit()
    await on.advance()
    return first, second


async def make_way(on: Stage, running: SessionId) -> None:
    """End a running session, so that the next one starts."""
    on.executor.end_kernel(kernel_id(running, attempt=1, rank=0))
    await on.settle()
    await on.advance()


async def shown(on: Stage, session_id: str) -> ForecastView:
    view = await on.queries.session(CALLER, session_id)
    assert view is not None
    assert view.forecast is not None
    return view.forecast


async def stored(database: DatabaseStore, session_id: str) -> dict[int, ForecastRecord]:
    found = await database.forecasts.page(None, since_us=0, limit=100)
    return {record.age_s: record for record in found if record.session_id == session_id}


def publish(on: Stage, made: Recorder, one: ShownForecast) -> None:
    on.state.board.tick(on.clock.now_us())
    on.state.board.show([one])
    made.note([one])


async def test_a_forecast_comes_true_if_the_session_starts_inside_the_band(database: DatabaseStore) -> None:
    async with stage([agent("a", devices=1)]) as on:
        made = recorder(on, database)
        first, second = await waiting(on)
        publish(on, made, shown_forecast(second, on.clock.now_us(), (10, 30, 90)))
        view = await shown(on, second)
        assert view.now is not None
        assert view.now.start is not None
        assert view.at_submission == view.now
        on.clock.advance(30 * 60)
        await make_way(on, first)
        await made.flush(now_us=on.clock.now_us())
        found = (await stored(database, second))[0]
        assert (found.outcome, found.settled_us) == (
            ForecastOutcome.STARTED,
            on.state.sessions[second].scheduled_us,
        )
        view = await shown(on, second)
        assert (view.now, view.came_true) == (None, True)
        assert [score.outcome for score in made.scores()] == ["started"]


async def test_a_session_that_waits_past_its_band_is_late_before_it_starts(database: DatabaseStore) -> None:
    async with stage([agent("a", devices=1)]) as on:
        made = recorder(on, database)
        _, second = await waiting(on)
        publish(on, made, shown_forecast(second, on.clock.now_us(), (1, 3, 9)))
        on.clock.advance(8 * 60)
        made.tick(on.clock.now_us())
        assert made.scores() == ()
        on.clock.advance(2 * 60)
        now_us = on.clock.now_us()
        made.tick(now_us)
        on.state.board.tick(now_us)
        assert [score.outcome for score in made.scores()] == [ForecastOutcome.LATE]
        view = await shown(on, second)
        assert view.came_true is False
        assert view.now is not None
        assert (view.now.start, view.now.unknown) == (
            None,
            "its band has passed, and nothing has changed in the cluster since",
        )


async def test_a_forecast_is_recorded_again_at_three_ages_and_scored_at_each(database: DatabaseStore) -> None:
    async with stage([agent("a", devices=1)]) as on:
        made = recorder(on, database)
        first, second = await waiting(on)
        publish(on, made, shown_forecast(second, on.clock.now_us(), (600, 700, 900)))
        for minutes in (16, 50, 200):
            on.clock.advance(minutes * 60)
            on.state.board.show([shown_forecast(second, on.clock.now_us(), (300, 400, 500))])
            made.tick(on.clock.now_us())
        await make_way(on, first)
        await made.flush(now_us=on.clock.now_us())
        found = await stored(database, second)
        assert list(found) == [0, 900, 3600, 14_400]
        assert {record.outcome for record in found.values()} == {ForecastOutcome.STARTED}
        assert found[900].made_us - found[0].made_us >= 15 * MINUTE_US
        assert [score.age_s for score in made.scores()] == [0, 900, 3600, 14_400]


async def waiting_array(on: Stage) -> tuple[SessionId, SessionId]:
    """A session that holds the only device, and an array waiting for it."""
    first = await on.submit()
    await on.advance()
    array = await on.submit(array="3-5")
    await on.advance()
    return first, array


async def test_an_array_is_judged_by_its_first_task(database: DatabaseStore) -> None:
    async with stage([agent("a", devices=1)]) as on:
        made = recorder(on, database)
        first, array = await waiting_array(on)
        publish(on, made, shown_forecast(array, on.clock.now_us(), (10, 30, 90)))
        on.clock.advance(30 * 60)
        await make_way(on, first)
        task = on.state.sessions[SessionId(f"{array}_3")]
        assert (await shown(on, array)).came_true is True
        again = shown_forecast(array, on.clock.now_us(), (20, 40, 80))
        publish(on, made, again)
        on.clock.advance(5 * 60)
        await make_way(on, task.id)
        assert on.state.board.now[array].shown() == again
        on.clock.advance(5 * 60)
        await make_way(on, SessionId(f"{array}_4"))
        await made.flush(now_us=on.clock.now_us())
        found = await stored(database, array)
        assert (list(found), found[0].outcome, found[0].settled_us) == ([0], ForecastOutcome.STARTED, task.scheduled_us)
        assert found[0].ended_us == on.state.sessions[task.id].ended_us
        assert [score.ended_us is None for score in made.scores()] == [True, False]
        assert await database.forecasts.days() == ((on.clock.now_us() // (24 * HOUR_US), 1),)


@pytest.mark.parametrize("ends", [False, True])
async def test_a_restart_scores_the_forecast_of_an_array_by_its_first_task(database: DatabaseStore, ends: bool) -> None:
    async with stage([agent("a", devices=1)]) as on:
        made = recorder(on, database)
        first, array = await waiting_array(on)
        publish(on, made, shown_forecast(array, on.clock.now_us(), (10, 30, 90)))
        await made.flush(now_us=on.clock.now_us())
        on.journal.unsubscribe(on.journal.subscriptions[-1])
        on.clock.advance(20 * 60)
        await make_way(on, first)
        task = SessionId(f"{array}_3")
        started_us = on.state.sessions[task].scheduled_us
        if ends:
            on.clock.advance(60)
            await make_way(on, task)
        again = recorder(on, database)
        await again.load(events=on.store, now_us=on.clock.now_us())
        if not ends:
            on.clock.advance(60)
            await make_way(on, task)
        scores = again.scores()
        assert [one.settled_us for one in scores] == [started_us, started_us]
        assert [one.ended_us is None for one in scores] == [True, False]


async def test_an_array_that_is_canceled_before_any_task_starts_is_censored(database: DatabaseStore) -> None:
    async with stage([agent("a", devices=1)]) as on:
        made = recorder(on, database)
        _, array = await waiting_array(on)
        publish(on, made, shown_forecast(array, on.clock.now_us(), (10, 30, 90)))
        await on.cancel(array)
        assert [score.outcome for score in made.scores()] == [ForecastOutcome.CANCELED]


@pytest.mark.parametrize("how", ["cancel", "hold"])
async def test_a_canceled_or_held_session_has_its_forecast_canceled(database: DatabaseStore, how: str) -> None:
    async with stage([agent("a", devices=1)]) as on:
        made = recorder(on, database)
        _, second = await waiting(on)
        publish(on, made, shown_forecast(second, on.clock.now_us(), (10, 30, 90)))
        if how == "cancel":
            await on.cancel(second)
        else:
            await on.sessions.hold_session(CALLER, second, None)
        await made.flush(now_us=on.clock.now_us())
        assert (await stored(database, second))[0].outcome is ForecastOutcome.CANCELED


async def test_a_forecast_settled_by_a_hold_is_not_scored_again(database: DatabaseStore) -> None:
    async with stage([agent("a", devices=1)]) as on:
        made = recorder(on, database)
        first, second = await waiting(on)
        publish(on, made, shown_forecast(second, on.clock.now_us(), (1, 2, 3)))
        await on.sessions.hold_session(CALLER, second, None)
        on.clock.advance(300)
        await on.sessions.release_session(CALLER, second, None)
        await on.advance()
        publish(on, made, shown_forecast(second, on.clock.now_us(), (1, 2, 3)))
        await make_way(on, first)
        await made.flush(now_us=on.clock.now_us())
        assert (await stored(database, second))[0].outcome is ForecastOutcome.CANCELED
        assert [score.outcome for score in made.scores()] == [ForecastOutcome.CANCELED]


async def test_a_forecast_to_start_now_is_dropped_when_the_session_does_not_start(database: DatabaseStore) -> None:
    async with stage([agent("a", devices=1)]) as on:
        made = recorder(on, database)
        _, second = await waiting(on)
        publish(on, made, shown_forecast(second, on.clock.now_us(), (0, 0, 0), starts_now=True))
        for passed_s, starts_now in ((30, True), (40, False)):
            on.clock.advance(passed_s)
            on.state.board.tick(on.clock.now_us())
            now = (await shown(on, second)).now
            assert now is not None
            assert (now.starts_now, now.start is None, now.unknown is None) == (starts_now, not starts_now, starts_now)


async def test_after_a_restart_open_forecasts_are_loaded_and_settled(database: DatabaseStore) -> None:
    async with stage([agent("a", devices=1)]) as on:
        made = recorder(on, database)
        first, second = await waiting(on)
        third = await on.submit()
        await on.advance()
        for name in (second, third):
            publish(on, made, shown_forecast(name, on.clock.now_us(), (10, 30, 90)))
        await made.flush(now_us=on.clock.now_us())
        on.journal.unsubscribe(on.journal.subscriptions[-1])
        on.clock.advance(20 * 60)
        await make_way(on, first)
        again = recorder(on, database)
        await again.load(events=on.store, now_us=on.clock.now_us())
        assert [(one.session_id, one.outcome) for one in again.scores()] == [(second, ForecastOutcome.STARTED)]
        await again.flush(now_us=on.clock.now_us())
        found = (await stored(database, second))[0]
        assert found.settled_us == on.state.sessions[second].scheduled_us
        assert (await stored(database, third))[0].outcome is ForecastOutcome.WAITING
        await on.cancel(third)
        assert [one.outcome for one in again.scores()] == [ForecastOutcome.CANCELED]


async def test_sessions_that_start_without_waiting_are_only_counted(database: DatabaseStore) -> None:
    async with stage([agent("a", devices=2)]) as on:
        made = recorder(on, database)
        await on.submit()
        await on.submit(array="0-3")
        await on.advance()
        day = on.clock.now_us() // (24 * HOUR_US)
        assert await made.flush(now_us=on.clock.now_us()) == ((day, 2),)
        assert await database.forecasts.days() == ((day, 2),)
        assert await database.forecasts.page(None, since_us=0, limit=10) == ()


async def test_a_held_session_shows_why_it_has_no_forecast(database: DatabaseStore) -> None:
    async with stage([agent("a", devices=1)]) as on:
        recorder(on, database)
        _, second = await waiting(on)
        assert (await shown(on, second)).missing == "no forecast has been made yet"
        await on.sessions.hold_session(CALLER, second, None)
        missing = (await shown(on, second)).missing
        assert missing is not None
        assert missing.startswith("it is held")


async def test_the_forecast_process_rebuilds_the_same_snapshot_as_the_server() -> None:
    async with stage([agent("a", devices=2)]) as on:
        difference, mirror = SnapshotDifference(), SnapshotMirror()
        held: list[str] = []
        for step in range(8):
            held.append(await on.submit())
            await on.advance()
            if step % 3 == 2:
                await on.cancel(SessionId(held.pop(0)))
                await on.advance()
            sent, got = _through(on, difference, mirror)
            assert got.revision == sent.revision
            assert sorted(got.agents, key=_id) == sorted(sent.agents, key=_id)
            assert sorted(got.queue, key=_id) == sorted(sent.queue, key=_id)
            assert sorted(got.running, key=_id) == sorted(sent.running, key=_id)
            assert (got.used, got.holders, got.run_times) == (sent.used, sent.holders, sent.run_times)


def _through(on: Stage, difference: SnapshotDifference, mirror: SnapshotMirror) -> tuple[Any, Any]:
    snapshot = take(on.state)
    how = {"number": 1, "now_us": 1, "wanted": None, "first_rows": None, "samples": 1}
    ask = ForecastRequest(snapshot=snapshot, policy=Policy(), **how)  # type: ignore[arg-type]
    for message in difference.messages(ask):
        arrived = pickle.loads(pickle.dumps(message))
        if isinstance(arrived, Rows):
            mirror.change(arrived)
        elif isinstance(arrived, ForecastRequest):
            return snapshot, mirror.snapshot(arrived)
    raise AssertionError("the request is missing")


def _id(row: Any) -> str:
    return str(getattr(row, "session_id", None) or row.id)


async def test_past_sessions_read_from_the_store_equal_those_learned_from_events() -> None:
    async with stage([agent("a", devices=1)]) as on:
        learner = Learner(on.state.pending)
        on.journal.subscribe(learner.on_event)
        first, second = await waiting(on)
        third = await on.submit()
        await on.cancel(third)
        on.clock.advance(60)
        await make_way(on, first)
        heard = learner.take()
        past = PastSessions(on.store, on.clock)
        read = [one async for page in past.pages() for one in page]
        assert len(await on.store.sessions(SessionQuery())) == 3
        assert {one.session_id for one in heard if isinstance(one, PendingRow)} == {first, second, third}
        assert {one.session_id for one in read if isinstance(one, PendingRow)} == {first, second, third}
        by_id = {one.session_id: one for one in heard if isinstance(one, Ended)}
        assert by_id == {one.session_id: one for one in read if isinstance(one, Ended)}
        assert by_id[third].run is None
        assert by_id[first].run is not None
        assert past.versions[first] == on.state.sessions[first].version


async def test_sessions_already_read_from_the_store_are_not_learned_again() -> None:
    async with stage([agent("a", devices=1)]) as on:
        learner = Learner(on.state.pending)
        on.journal.subscribe(learner.on_event)
        first = await on.submit()
        assert learner.take({first: 1}) == ()
        await on.cancel(first)
        assert len(learner.take({first: 1})) == 1


async def test_the_packed_forecast_board_unpacks_to_the_same_content(database: DatabaseStore) -> None:
    async with stage([agent("a", devices=1)]) as on:
        made = recorder(on, database)
        _, second = await waiting(on)
        publish(on, made, shown_forecast(second, on.clock.now_us(), (10, 30, 90)))
        on.state.board.show(ShownForecast(forecast=forecast(f"ses_{number}", 5, (1, 2, 3))) for number in range(250))
        content = on.state.board.content()
        assert unpacked(packed(content)) == content
        assert len(content.now) == 251


async def test_a_follower_accepts_forecasts_only_from_the_leader_of_the_current_term(database: DatabaseStore) -> None:
    leader, follower = ForecastBoard(), ForecastBoard()
    epoch = (await database.begin_term()).epoch
    publisher = BoardPublisher(leader, relay=database.forecasts, epoch=epoch)
    receiver = BoardReceiver(follower, relay=database.forecasts, clock=StepClock())
    leader.show([shown_forecast("ses_a", 5, (1, 2, 3))])
    leader.put(packed_record("ses_a", 5))
    leader.report(AccuracyReport(runs=7), made_us=5)
    await publisher.publish()
    await receiver.run_once()
    assert follower.content() == leader.content()
    leader.put(packed_record("ses_a", 5, outcome=ForecastOutcome.STARTED, settled_us=9))
    await publisher.publish()
    await receiver.run_once()
    assert follower.now.get(SessionId("ses_a")) is None
    first = follower.first.get(SessionId("ses_a"))
    assert first is not None
    assert first.outcome is ForecastOutcome.STARTED
    await database.begin_term()
    leader.lack("gone")
    await publisher.publish()
    await receiver.run_once()
    assert follower.missing is None
