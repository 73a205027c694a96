"""A PostgreSQL connection whose opener is cancelled is completed and closed, never left half open."""

import asyncio
from contextlib import aclosing
from typing import Any

import asyncpg
import pytest
from sqlalchemy import make_url

from aliquot.app.backtests import ProcessBacktests
from aliquot.service.backtests.ports import BacktestOrder, OrderedRun
from aliquot.service.ports import StoreUnavailable
from aliquot.store.engines.postgres import connect
from aliquot_schema.policies import PolicyDocument
from store_places import Place

pytestmark = pytest.mark.anyio
URL = make_url("postgresql://ann@127.0.0.1/none")


class Driver:
    """Replaces `asyncpg.connect`: a handshake that lasts until the test ends it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.may_end = asyncio.Event()
        self.was_cancelled = False
        self.terminated = 0
        self._error = error

    async def connect(self, **_: Any) -> "Driver":
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        if self._error is not None:
            raise self._error
        return self

    def terminate(self) -> None:
        self.terminated += 1


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    found = Driver()
    monkeypatch.setattr(asyncpg, "connect", found.connect)
    return found


async def test_a_backtest_uses_the_same_connection_variables_as_its_server(
    postgres_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = make_url(postgres_place.url)
    monkeypatch.setenv("PGHOST", str(url.query["host"]))
    place = Place(f"postgresql://postgres@/{url.database}", postgres_place.folder)
    store = place.store()
    await store.open()
    await store.close()
    run = OrderedRun(label="x", policy=PolicyDocument())
    backtests = ProcessBacktests(database_url=place.url, data_folder=place.folder)
    async with aclosing(backtests.run(BacktestOrder(since_us=0, until_us=1, runs=(run,)))) as news:  # type: ignore[type-var]
        heard = [one async for one in news]
    assert "no scheduling pass of this time is recorded" in str(heard[-1].failure)


@pytest.mark.parametrize("cancellations", [1, 2, 3])
async def test_a_cancelled_opener_waits_for_its_connection_and_closes_it(driver: Driver, cancellations: int) -> None:
    opening = asyncio.create_task(connect(URL, name="test"))
    for _ in range(cancellations):
        await asyncio.sleep(0.001)
        opening.cancel()
    await asyncio.sleep(0.001)
    assert (opening.done(), driver.was_cancelled) == (False, False)
    driver.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert (driver.terminated, driver.was_cancelled) == (1, False)


async def test_an_opened_connection_is_returned_to_its_caller(driver: Driver) -> None:
    driver.may_end.set()
    assert await connect(URL, name="test") is driver
    assert driver.terminated == 0


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_failed_connection_leaves_nothing(monkeypatch: pytest.MonkeyPatch, is_cancelled: bool) -> None:
    failing = Driver(error=OSError("refused"))
    monkeypatch.setattr(asyncpg, "connect", failing.connect)
    opening = asyncio.create_task(connect(URL, name="test"))
    await asyncio.sleep(0.001)
    if is_cancelled:
        opening.cancel()
    failing.may_end.set()
    with pytest.raises(asyncio.CancelledError if is_cancelled else StoreUnavailable):
        await opening
    assert failing.terminated == 0
