"""Backtest process: runs one backtest at low priority, apart from the server's process.

The server starts it with one line of JSON on its standard input, which names the database; it answers with lines of
JSON. It only reads the database, and ends with the server, or when it has used `CPU_S_MAX` of processor time.
"""

import asyncio
import os
import resource
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection

from aliquot.core.model.policy import Policy
from aliquot.service.backtests.ports import BacktestNews, BacktestOrder
from aliquot.service.ledger.entries import PassKey
from aliquot.store.engines.database import unavailability
from aliquot.store.engines.sqlite import connect_reader
from aliquot.store.ledger.ledger import DatabaseLedger
from aliquot.store.mapping import ENCODER, decoder
from aliquot.store.open import choose_database, sqlite_path
from aliquot_schema.errors import AliquotError

if TYPE_CHECKING:
    from aliquot.core.simulation.recorded_history import RecordedHistory

NICE: Final = 15
CPU_S_MAX: Final = 3600
LINE_MAX: Final = 64 << 20
END_S_MAX: Final = 2.0
OUTAGE_S_MAX: Final = 3600.0
"""How long a backtest waits for a database that is away, in seconds."""
READS_MAX: Final = 5
"""If reading the record fails this often although the database could be opened, the backtest fails."""
RETRY_S: Final = 2.0
READING_RUNS: Final = 2
"""How many runs take about as long as reading the record."""
PROGRESS_STEP: Final = 0.01
ENVIRONMENT: Final = frozenset({"PATH", "PYTHONPATH", "LANG", "TZ", "HOME"})
"""Variables that a backtest's process gets from the server, besides those of PostgreSQL's clients (`PGPASSWORD`)."""
T = TypeVar("T")


class BacktestTask(Struct, frozen=True, kw_only=True):
    """Message to the process of a backtest."""

    database_url: str
    data_folder: str
    order: BacktestOrder


_TASK: Final = decoder(BacktestTask)
_NEWS: Final = decoder(BacktestNews)


class ProcessBacktests(Struct, frozen=True, kw_only=True):
    """Implements `BacktestRunner` with one process per backtest."""

    database_url: str
    data_folder: Path

    async def run(self, order: BacktestOrder) -> AsyncIterator[BacktestNews]:
        """See `BacktestRunner`."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "aliquot.app.backtests"),
            env={name: value for name, value in os.environ.items() if name in ENVIRONMENT or name.startswith("PG")},
            cwd="/",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=LINE_MAX,
        )
        assert process.stdin is not None, "it is a pipe"
        assert process.stdout is not None, "it is a pipe"
        task = BacktestTask(database_url=self.database_url, data_folder=str(self.data_folder.absolute()), order=order)
        try:
            process.stdin.write(ENCODER.encode(task) + b"\n")
            with suppress(ConnectionError):
                await process.stdin.drain()
            while line := await process.stdout.readline():
                yield await asyncio.to_thread(_NEWS.decode, line)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            async with asyncio.timeout(END_S_MAX):
                await process.wait()


def main() -> None:
    """Run the backtest that the server asks for."""
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S_MAX, CPU_S_MAX))
    task = _TASK.decode(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_server, daemon=True).start()
    try:
        asyncio.run(_run(task))
    except AliquotError as error:
        _tell(BacktestNews(failure=error.message))
    except Exception as error:
        _tell(BacktestNews(failure=f"the backtest failed: {type(error).__name__}: {error}"))


async def _run(task: BacktestTask) -> None:
    from aliquot.core.simulation.backtest import Variant, backtest
    from aliquot.core.simulation.tuning import TuningTask, tune

    order, progress = task.order, Progress()
    read = read_part(order)
    if order.tuning is not None:
        first, later = await _read(task, progress)
        asked = TuningTask(document=order.tuning.document, tries=order.tuning.tries, seed=order.tuning.seed)
        tuned = tune(first, later, asked, on_progress=lambda part: progress.tell(read + (1 - read) * part))
        _tell(BacktestNews(tuning=tuned))
        return
    [history] = await _read(task, progress)
    variants = [
        Variant(
            label=run.label,
            policy=None if run.policy is None else Policy.of(replace(run.policy, version=run.policy.version + 1)),
            like=run.like,
            count=run.count,
            without=run.without,
            changed_quotas=run.quotas,
        )
        for run in order.runs
    ]
    report = backtest(history, variants, on_progress=lambda part: progress.tell(read + (1 - read) * part))
    _tell(BacktestNews(report=report))


def read_part(order: BacktestOrder) -> float:
    """The part of the progress for reading the record; the runs are the rest."""
    from aliquot.core.simulation.tuning import RUNS_BESIDE

    runs = 1 + len(order.runs) if order.tuning is None else RUNS_BESIDE + order.tuning.tries
    return READING_RUNS / (READING_RUNS + runs)


async def _read(task: BacktestTask, progress: "Progress") -> "list[RecordedHistory]":
    """The history of a backtest, or those of the two parts of a tuning; waits for a shared database that is away."""
    is_shared = sqlite_path(task.database_url, data_folder=Path(task.data_folder)) is None
    until_s, reads = time.monotonic() + OUTAGE_S_MAX, 0
    while True:
        database = ReadOnlyDatabase(task.database_url, Path(task.data_folder))
        try:
            await database.open()
            reads += 1
            return await _read_once(DatabaseLedger(database), task.order, progress)
        except Exception as error:
            if (unavailable := unavailability(error)) is None:
                raise
            if not is_shared or time.monotonic() > until_s or reads == READS_MAX:
                raise unavailable from error
        finally:
            await database.close()
        await asyncio.sleep(RETRY_S)


async def _read_once(ledger: DatabaseLedger, order: BacktestOrder, progress: "Progress") -> "list[RecordedHistory]":
    from aliquot.service.backtests.recording import record

    found: list[RecordedHistory] = []
    times_us = await _times_us(order, ledger)
    whole_us, weight = times_us[-1] - times_us[0], read_part(order)
    for since_us, until_us in pairwise(times_us):
        before, part = (since_us - times_us[0]) / whole_us, (until_us - since_us) / whole_us
        found.append(
            await record(
                ledger,
                since_us=since_us,
                until_us=until_us,
                on_progress=partial(_tell_reading, progress, weight * before, weight * part),
            )
        )
    return found


async def _times_us(order: BacktestOrder, ledger: DatabaseLedger) -> Sequence[int]:
    """Begin and end of what is read, and between them the split of a tuning."""
    if order.tuning is None:
        return order.since_us, order.until_us
    split_us = order.tuning.split_us
    if split_us is None:
        begins_us = await _time_us(ledger, await ledger.first_at(order.since_us), unknown_us=order.since_us)
        newest = next(iter(await ledger.last(1)), None)
        ends_us = min(await _time_us(ledger, newest, unknown_us=order.until_us), order.until_us)
        split_us = begins_us + max(ends_us - begins_us, 0) * 2 // 3
    return order.since_us, split_us, order.until_us


async def _time_us(ledger: DatabaseLedger, key: PassKey | None, *, unknown_us: int) -> int:
    found = () if key is None else await ledger.entries(first=key.number, last=key.number, limit=1)
    return min((entry.now_us for entry in found), default=unknown_us)


def _tell_reading(progress: "Progress", before: float, part: float, read: float) -> None:
    progress.tell(before + part * read)


class Progress:
    """Tells the progress in steps of `PROGRESS_STEP`."""

    def __init__(self) -> None:
        self._reported = 0.0

    def tell(self, part: float) -> None:
        """Tell it, if it has moved."""
        if part >= self._reported + PROGRESS_STEP:
            self._reported = part
            _tell(BacktestNews(progress=part))


class ReadOnlyDatabase:
    """A database that is only read, beside its server."""

    def __init__(self, database_url: str, data_folder: Path) -> None:
        path = sqlite_path(database_url, data_folder=data_folder)
        self._file: Connection | None = None if path is None else connect_reader(path)
        self._shared = (
            choose_database(database_url, data_folder=data_folder, now_us=lambda: 0, upgrades=False)
            if path is None
            else None
        )

    async def open(self) -> None:
        """Connect."""
        if self._shared is not None:
            await self._shared.open()

    async def close(self) -> None:
        """Disconnect."""
        if self._shared is not None:
            await self._shared.close()
        if self._file is not None:
            self._file.close()

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run a function that only reads."""
        if self._shared is not None:
            return await self._shared.read(work)
        assert self._file is not None, "it is open"
        with self._file.begin():
            return work(self._file)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Nothing is written here."""
        raise AssertionError(f"{work} would write")


def _tell(news: BacktestNews) -> None:
    sys.stdout.buffer.write(ENCODER.encode(news) + b"\n")
    sys.stdout.buffer.flush()


def _end_with_server() -> None:
    """End the process when the server has closed its end of the pipe."""
    while os.read(sys.stdin.fileno(), 4096):  # a thread that waits in `sys.stdin` itself aborts the end of the process
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
