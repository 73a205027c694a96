"""Metrics: sessions as counted from the log, promises, device time, lag, backlog."""

import asyncio
import logging
import time
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from prometheus_client import Counter, Histogram

from aliquot.clock import SystemClock
from aliquot.service.metrics import health
from aliquot.service.metrics.counters import SLACK_US, ReservationAccuracy, StoreMeasures, counter, export_zeros
from aliquot.service.metrics.health import Backlog, LoopLag
from aliquot.service.metrics.metrics import GAP_S_MAX, DeviceTime, Measures, SessionCounts
from aliquot.service.ports import StaleVersion, StoreUnavailable
from aliquot.service.state.state import State
from aliquot_schema.ids import AgentId, DeviceId, SessionId
from aliquot_schema.intervals import Intervals
from aliquot_schema.resources.devices import DeviceReading
from aliquot_schema.sessions import ArrayTasks, Failure
from aliquot_schema.states import KernelState, SessionState
from core_records import agent, kernel, lease_of, session
from service_events import event_of


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for a fact."""
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110 # no event
            await asyncio.sleep(0.01)


def counted(metric: Counter | Histogram, *labels: str) -> float:
    """The value of a counter, or the number of values of a histogram."""
    return _sample(metric, "_total" if isinstance(metric, Counter) else "_count", labels)


def summed(metric: Histogram, *labels: str) -> float:
    """The sum of a histogram's values."""
    return _sample(metric, "_sum", labels)


def _sample(metric: Counter | Histogram, suffix: str, labels: tuple[str, ...]) -> float:
    (family,) = metric.collect()
    (value,) = [
        sample.value
        for sample in family.samples
        if sample.name.endswith(suffix) and tuple(sample.labels.values()) == labels
    ]
    return value


def test_zeros_are_exported_before_the_first_count_and_no_times_of_creation() -> None:
    metric = counter("ends", "Ends.", "outcome")
    export_zeros(metric, ("kept",))
    (family,) = metric.collect()
    assert [(sample.name, sample.labels, sample.value) for sample in family.samples] == [
        ("aliquot_ends_total", {"outcome": "kept"}, 0.0)
    ]


def test_an_expired_external_allocation_counts_as_ended() -> None:
    """Otherwise the submitted and ended counts would drift apart."""
    counts = SessionCounts()
    failure = Failure(code="lease_expired", message="its time was over")
    ended = replace(session(), version=3, state=SessionState.FAILED, failure=failure, started_us=1, ended_us=2)
    counts.take(event_of(ended, "session.expired"))
    assert counted(counts.ended, "failed") == counted(counts.failures, "lease_expired") == 1


def test_each_state_of_a_session_is_counted_once() -> None:
    counts = SessionCounts()
    queued = session(queued_us=1_000_000)
    scheduled = replace(queued, version=2, state=SessionState.SCHEDULED, attempt=1, scheduled_us=31_000_000)
    running = replace(scheduled, version=4, state=SessionState.RUNNING, started_us=32_000_000)
    ended = replace(running, version=5, state=SessionState.COMPLETED, ended_us=42_000_000)
    for record, what in ((queued, "queued"), (scheduled, "scheduled"), (running, "running"), (ended, "completed")):
        counts.take(event_of(record, f"session.{what}"))
    assert counted(counts.submitted) == counted(counts.started) == 1
    assert [counted(counts.ended, outcome) for outcome in ("completed", "failed", "canceled")] == [1, 0, 0]
    assert summed(counts.waits) == 30.0
    assert summed(counts.durations, "completed") == 10.0


def test_a_second_attempt_is_a_second_start_and_no_second_wait() -> None:
    counts = SessionCounts()
    again = session(SessionState.SCHEDULED, version=7, attempt=2, scheduled_us=9)
    counts.take(event_of(again, "session.scheduled"))
    counts.take(event_of(replace(again, state=SessionState.RUNNING, started_us=9), "session.running"))
    assert counted(counts.started) == 1
    assert counted(counts.waits) == 0


def test_tasks_of_an_array_are_counted_and_the_array_is_not() -> None:
    counts = SessionCounts()
    array = session(tasks=ArrayTasks(waiting=Intervals.parse("0-9")))
    counts.take(event_of(array, "session.queued"))
    counts.take(event_of(replace(array, state=SessionState.RUNNING), "session.running"))
    task = session(SessionState.SCHEDULED, id=SessionId("ses_1_0"), version=1, attempt=1, scheduled_us=5)
    counts.take(event_of(task, "session.scheduled"))
    assert counted(counts.submitted) == 1
    assert counted(counts.started) == 0


@pytest.mark.parametrize(("late_us", "outcome"), [(0, "kept"), (SLACK_US, "kept"), (SLACK_US + 1, "late")])
def test_a_reservation_is_kept_if_the_session_starts_by_its_time_plus_tolerance(late_us: int, outcome: str) -> None:
    promises = ReservationAccuracy()
    waits = session()
    promises.note({waits.id: 100})
    promises.note({waits.id: 100 + SLACK_US * 9})  # moved: the first one counts
    promises.start(replace(waits, state=SessionState.SCHEDULED, scheduled_us=100 + late_us))
    assert counted(promises.made) == 1
    assert [what for what in ("kept", "late", "withdrawn") if counted(promises.ended, what)] == [outcome]


def test_a_reservation_that_is_no_longer_made_counts_as_withdrawn_once() -> None:
    promises = ReservationAccuracy()
    promises.note({SessionId("ses_1"): 5})
    promises.note({})
    promises.note({})
    assert counted(promises.ended, "withdrawn") == 1


def test_scheduled_sessions_settle_their_reservations() -> None:
    measures = Measures()
    measures.promises.note({session().id: 10})
    measures.take(event_of(session(SessionState.SCHEDULED, scheduled_us=10), "session.scheduled"))
    assert counted(measures.promises.ended, "kept") == 1


class Metered:
    """One agent whose first device is partly held."""

    def __init__(self, *, milli: int) -> None:
        self.state = State()
        rank = kernel(KernelState.RUNNING)
        held = lease_of(rank, spec={"cuda.shares": {DeviceId("cuda0"): milli}}) if milli else None
        records = (agent(), session(SessionState.RUNNING, started_us=1), rank, *([held] if held else []))
        self.state.load(records, revision=1, ended_complete=True)
        self.time = DeviceTime()

    def reads(self, pct: float | None, *, at: float) -> None:
        reading = DeviceReading(device_id=DeviceId("cuda0"), utilization_pct=pct)
        self.time.measure(AgentId("a"), [reading], state=self.state, now_s=at)

    def spent(self) -> tuple[float, float, float]:
        found = self.time.of(AgentId("a"), DeviceId("cuda0"))
        return found.held, found.used, found.idle


def test_half_a_device_counts_half_of_the_held_time() -> None:
    metered = Metered(milli=500)
    for at in (0.0, 2.0, 4.0):
        metered.reads(30.0, at=at)
    assert metered.spent() == pytest.approx((2.0, 1.2, 0.0))


def test_used_time_never_exceeds_held_time() -> None:
    metered = Metered(milli=500)
    metered.reads(100.0, at=0.0)
    metered.reads(100.0, at=2.0)
    assert metered.spent() == pytest.approx((1.0, 1.0, 0.0))


def test_idle_time_of_a_partly_held_device_is_counted_for_the_whole_device() -> None:
    metered = Metered(milli=500)
    metered.reads(0.0, at=0.0)
    metered.reads(4.9, at=2.0)
    metered.reads(5.0, at=4.0)
    assert metered.spent()[2] == 2.0


def test_a_device_without_a_holder_counts_no_idle_time() -> None:
    metered = Metered(milli=0)
    metered.reads(0.0, at=0.0)
    metered.reads(0.0, at=2.0)
    assert metered.spent() == (0.0, 0.0, 0.0)


def test_gaps_between_readings_are_counted_only_up_to_a_limit() -> None:
    metered = Metered(milli=1000)
    metered.reads(0.0, at=0.0)
    metered.reads(None, at=2.0)
    metered.reads(0.0, at=10_000.0)
    assert metered.spent() == (GAP_S_MAX, 0.0, GAP_S_MAX)


def test_devices_that_an_agent_no_longer_has_are_not_counted() -> None:
    metered = Metered(milli=1000)
    metered.reads(30.0, at=0.0)
    metered.reads(30.0, at=2.0)
    metered.state.load([replace(agent(), devices=agent().devices[1:])], revision=1, ended_complete=True)
    metered.reads(30.0, at=4.0)
    assert metered.spent() == (0.0, 0.0, 0.0)


def test_a_failed_commit_marks_the_database_down_until_the_next_successful_commit() -> None:
    measures = StoreMeasures()
    with pytest.raises(StoreUnavailable), measures.timed("commit"):
        raise StoreUnavailable("the disk is full")
    assert not measures.is_up
    with measures.timed("read"):
        pass
    assert not measures.is_up  # readable, which is not enough
    with measures.timed("commit"):
        pass
    assert measures.is_up
    assert counted(measures.faults, "commit") == 1


def test_a_stale_version_is_not_a_database_fault() -> None:
    measures = StoreMeasures()
    with pytest.raises(StaleVersion), measures.timed("commit"):
        raise StaleVersion
    assert measures.is_up
    assert counted(measures.faults, "commit") == 0


def test_a_queue_backlog_is_logged_once_until_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="aliquot.queue")
    backlog = Backlog(10)
    for waiting in (9, 10, 11, 12, 10, 11, 9, 5, 11):
        backlog.look(waiting)
    told = [record.__dict__["event"] for record in caplog.records]
    assert told == ["queue_backlog", "queue_backlog_over", "queue_backlog"]
    assert caplog.records[0].__dict__["waiting"] == 11


def test_without_a_threshold_no_backlog_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    Backlog(0).look(10**9)
    assert caplog.records == []


def test_the_worst_recent_event_loop_lag_is_remembered() -> None:
    lag = LoopLag()
    lag.note(7.5)
    lag.note(-0.001)  # timers may fire a little early
    assert lag.worst_s() == 7.5
    assert summed(lag.seconds) == 7.5


@pytest.mark.anyio
async def test_a_blocked_event_loop_is_measured_as_lag() -> None:
    lag = LoopLag()
    measuring = asyncio.create_task(lag.run(asyncio.sleep))
    await asyncio.sleep(0)
    time.sleep(1.0)  # noqa: ASYNC251 # that is the point
    await until(lambda: counted(lag.seconds) > 0)
    measuring.cancel()
    assert lag.worst_s() > 0.3


@pytest.mark.anyio
async def test_a_database_that_stops_answering_is_detected_and_so_is_its_recovery(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(health, "ANSWER_S_MAX", 0.01)
    caplog.set_level(logging.INFO, logger="aliquot.store")
    measures, answer, told = StoreMeasures(), asyncio.Event(), asyncio.Event()

    async def ask() -> None:
        with measures.timed("read"):
            await answer.wait()

    clock = SystemClock()
    monkeypatch.setattr(clock, "sleep", lambda _: told.wait())
    watching = asyncio.create_task(health.watch_database(ask, measures, clock=clock))
    await until(lambda: not measures.is_up)
    answer.set()
    await until(lambda: measures.is_up and len(caplog.records) == 2)
    watching.cancel()
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


@pytest.mark.anyio
async def test_an_unexpected_error_of_the_database_probe_does_not_end_the_probe(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(health, "ANSWER_S_MAX", 0.01)
    asked = 0

    async def ask() -> None:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0.05)  # slower than an answer may be
        raise ValueError("odd")

    clock = SystemClock()
    monkeypatch.setattr(clock, "sleep", lambda _: asyncio.sleep(0))
    watching = asyncio.create_task(health.watch_database(ask, StoreMeasures(), clock=clock))
    await until(lambda: asked == 3 or watching.done())
    assert not watching.done()
    watching.cancel()
    assert "the database probe failed: ValueError: odd" in caplog.text
