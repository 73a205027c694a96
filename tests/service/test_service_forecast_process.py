"""The forecast process as the server deals with it: what it is taught when it starts, and that it may stop reading."""

import os
import signal
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from aliquot.core.foresight.scoring import AccuracyReport
from aliquot.service.foresight import supervisor
from aliquot.service.foresight.forecasting import Forecasting
from aliquot.service.foresight.process import Forecaster
from aliquot.service.foresight.process_messages import (
    Finished,
    ForecastRequest,
    LearningBatch,
    ProcessReady,
    SnapshotDifference,
    ToProcess,
)
from aliquot.service.foresight.supervisor import ProcessEnded, forecast_process
from aliquot.service.metrics.counters import ForecastMeasures
from aliquot.service.retention import ClockJumps
from aliquot.service.state.forecast_board import QuestionQueue
from aliquot.service.state.snapshots import take
from aliquot.store.open import open_store
from aliquot.store.store import DatabaseStore
from aliquot_schema.ids import SessionId, kernel_id
from forecast_records import packed_record
from service_bench import agent
from service_stage import Stage, stage

pytestmark = pytest.mark.anyio


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[DatabaseStore]:
    store = open_store("", data_folder=tmp_path, now_us=lambda: 1)
    await store.open()
    yield store
    await store.close()


class Taught:
    """A channel to a forecast process in this one."""

    def __init__(self) -> None:
        self.process = Forecaster()

    async def send(self, messages: Iterable[ToProcess]) -> None:
        for message in messages:
            self.process.take(message)

    def report(self, on: Stage) -> AccuracyReport:
        """What it has been taught of outcomes."""
        ask = ForecastRequest(
            number=1,
            snapshot=take(on.state),
            policy=on.state.rules,
            now_us=on.clock.now_us(),
            wanted=(),
            first_rows=None,
            samples=1,
        )
        answers = [one for message in SnapshotDifference().messages(ask) for one in self.process.take(message)]
        return next(one.accuracy for one in answers if isinstance(one, Finished))


@pytest.mark.parametrize("when", ["before", "while", "written while", "after"])
async def test_an_outcome_is_taught_once_whenever_it_becomes_known(
    database: DatabaseStore, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage([agent("a", devices=1)]) as on:
        forecasting = Forecasting(
            state=on.state,
            journal=on.journal,
            clock=on.clock,
            events=on.store,
            store=database.forecasts,
            relay=None,
            epoch=1,
            jumps=ClockJumps(on.clock),
            measures=ForecastMeasures(),
            questions=QuestionQueue(),
        )
        first, second = await _submitted(on), await _submitted(on)
        await database.forecasts.add([packed_record(second, on.clock.now_us())])
        await forecasting._recorder.load(events=on.store, now_us=on.clock.now_us())
        read = database.forecasts.page

        async def start() -> None:
            on.executor.end_kernel(kernel_id(first, attempt=1, rank=0))
            await on.settle()
            await on.advance()
            forecasting._apply_events()

        async def page(*args: Any, **query: Any) -> Any:
            if args[0] is None and "while" in when:
                await start()
            if when == "written while":
                await forecasting._write()
            return await read(*args, **query)

        monkeypatch.setattr(database.forecasts, "page", page)
        channel: Any = Taught()
        if when == "before":
            await start()
        await forecasting._send_learned(channel)
        if when == "after":
            await start()
        await channel.send(forecasting._news())
        assert channel.report(on).waited == 1


async def _submitted(on: Stage) -> SessionId:
    name = await on.submit()
    await on.advance()
    return name


async def test_a_process_that_is_stopped_is_given_up_and_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "SEND_S_MAX", 0.5)
    monkeypatch.setattr(supervisor, "END_S_MAX", 0.1)
    many: Any = tuple(os.urandom(100_000) for _ in range(20))
    async with forecast_process() as channel:
        assert isinstance(await channel.receive(), ProcessReady)
        os.kill(channel.pid, signal.SIGSTOP)
        with pytest.raises(ProcessEnded, match="does not read"):
            await channel.send([LearningBatch(learned=many, is_history=True)])
    with pytest.raises(ProcessLookupError):
        os.kill(channel.pid, 0)


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})], ids=["the server's event loop"])
async def test_a_process_that_is_killed_while_it_is_sent_messages_has_ended(anyio_backend: object) -> None:
    few: Any = (b"unread",)
    async with forecast_process() as channel:
        assert isinstance(await channel.receive(), ProcessReady)
        os.kill(channel.pid, signal.SIGSTOP)
        await channel.send([LearningBatch(learned=few, is_history=True)])
        os.kill(channel.pid, signal.SIGKILL)
        with pytest.raises(ProcessEnded):
            await channel.receive()
        assert channel.has_ended
        with pytest.raises(ProcessEnded):
            await channel.send([LearningBatch(learned=few, is_history=True)])
