"""A PostgreSQL connection whose opener is cancelled is completed and closed, never left half open."""

import asyncio
import socket
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy import Connection, make_url
from sqlalchemy.exc import DBAPIError

from aliquot.app.agents import own_disk
from aliquot.app.backtests import ProcessBacktests
from aliquot.app.running import WatchedDatabase
from aliquot.clock import SystemClock
from aliquot.service.backtests.ports import BacktestOrder, OrderedRun
from aliquot.service.ports import StoreUnavailable
from aliquot.settings import Settings
from aliquot.store.engines.database import unavailability
from aliquot.store.engines.postgres import PostgresDatabase, connect
from aliquot.store.open import open_database
from aliquot_schema.policies import PolicyDocument
from failover_proxy import postgres_proxy
from store_places import Place
from store_postgres import PostgresCluster

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


async def test_a_backtest_waits_for_a_database_that_is_away(postgres_place: Place, postgres: PostgresCluster) -> None:
    store = postgres_place.store()
    await store.open()
    await store.close()
    run = OrderedRun(label="x", policy=PolicyDocument())
    async with postgres_proxy(postgres, postgres_place.url) as proxy:
        proxy.wire.cut()
        backtests = ProcessBacktests(database_url=proxy.url, data_folder=postgres_place.folder)
        async with aclosing(backtests.run(BacktestOrder(since_us=0, until_us=1, runs=(run,)))) as news:  # type: ignore[type-var]
            heard = asyncio.ensure_future(anext(news))
            async with asyncio.timeout(60):
                while proxy.wire.accepted < 3 and not heard.done():  # noqa: ASYNC110  # with TLS, without
                    await asyncio.sleep(0.01)
            proxy.wire.resume()
            assert "no scheduling pass of this time is recorded" in str((await heard).failure)


@pytest.mark.parametrize(
    ("ahead_s", "words"), [(600, "10 minutes ahead of"), (-600, "10 minutes behind"), (30, None), (-30, None)]
)
async def test_a_clock_that_differs_from_that_of_the_database_is_a_warning(
    postgres_place: Place, ahead_s: int, words: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    store = postgres_place.store()
    await store.open()
    ahead_ns = ahead_s * 1_000_000_000
    database = WatchedDatabase.of(store, SystemClock(wall_ns=lambda: time.time_ns() + ahead_ns))
    assert database.clock_warning() is None
    for _ in range(2):
        await database.ask()
    warning = database.clock_warning()
    said = [record.getMessage() for record in caplog.records if record.name == "aliquot.clock"]
    assert said == ([] if words is None else [warning])
    assert words is None or f"this machine is {words} that of the database" in str(warning)
    ahead_ns = 0
    await database.ask()
    assert database.clock_warning() is None
    await store.close()


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


@pytest.mark.parametrize("anyio_backend", ["asyncio", ("asyncio", {"use_uvloop": True})])
async def test_the_system_breaks_a_connection_over_a_network_that_confirms_nothing(
    postgres_place: Place, postgres: PostgresCluster
) -> None:
    async with postgres_proxy(postgres, postgres_place.url) as proxy:
        database = PostgresDatabase(make_url(proxy.url))
        await database.open()
        try:
            found = await database.read(_link_options)
        finally:
            await database.close()
    assert found == {"TCP_USER_TIMEOUT": 8000, "TCP_KEEPIDLE": 4, "SO_KEEPALIVE": 1}


def _link_options(connection: Connection) -> dict[str, int]:
    link = connection.connection.driver_connection._transport.get_extra_info("socket")  # type: ignore[union-attr]
    return {
        "TCP_USER_TIMEOUT": link.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
        "TCP_KEEPIDLE": link.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
        "SO_KEEPALIVE": link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
    }


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("foo=1", "option 'foo'"),
        ("sslmode=require", "option 'sslmode', which is not supported; TLS is ssl=require"),
        ("host=a:1&host=b", "cannot be used"),
    ],
)
async def test_an_option_that_the_driver_lacks_is_refused_by_its_name(options: str, words: str) -> None:
    with pytest.raises(StoreUnavailable, match=words):
        PostgresDatabase(make_url(f"postgresql://ann@/none?{options}"))


async def test_options_of_the_driver_are_accepted() -> None:
    for options in ("host=db1:5432&host=db2:5432&target_session_attrs=read-write", "ssl=require", "host=/run/pg"):
        PostgresDatabase(make_url(f"postgresql://ann@/none?{options}"))


@pytest.mark.parametrize("options", ["ssl=bogus", "target_session_attrs=bogus"])
async def test_a_wrong_value_of_an_option_is_no_damage_of_the_database(options: str) -> None:
    with pytest.raises(DBAPIError) as found:
        await PostgresDatabase(make_url(f"postgresql://ann@127.0.0.1:1/none?{options}")).open()
    assert "the database cannot be used now" in str(unavailability(found.value))


@pytest.mark.parametrize("url", ["ann@db/aliquot", "postgresql://ann@db:port/aliquot"])
async def test_a_text_that_is_no_database_url_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="URL cannot be read"):
        own_disk(Settings(database=url, data_folder=tmp_path))
    with pytest.raises(StoreUnavailable, match="URL cannot be read"):
        open_database(url, data_folder=tmp_path, now_us=lambda: 0, address="")
