"""The relay of readings on a real PostgreSQL: followers read the leader's; a past leader cannot publish."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import Connection, text

from aliquot.service.leadership.readings_relay import AgentReadings, ReadingsSnapshot
from aliquot.store.open import ServerDatabase, share
from aliquot.store.replication.readings_relay import PostgresRelay
from aliquot_schema.ids import AgentId, DeviceId, NodeId
from store_places import Place, now_us

pytestmark = pytest.mark.anyio


def sheet(utilization_pct: float = 37.123456789) -> ReadingsSnapshot:
    """One agent, with a device with all readings, one with few, and one with none."""
    line = AgentReadings(
        agent_id=AgentId("a"),
        version=3,
        utilization_pct=(utilization_pct, 0.0, None),
        memory_used_bytes=(2**40 + 1, None, None),
        temperature_c=(41.5, None, None),
        power_w=(300.25, None, None),
    )
    return ReadingsSnapshot(lines=(line,), blocked={NodeId("n"): {DeviceId("gpu-1"): 1000}})


@pytest.fixture
async def servers(anyio_backend: str, postgres_place: Place) -> AsyncIterator[tuple[ServerDatabase, ServerDatabase]]:
    """Two servers' handles on a database."""
    both = [share(postgres_place.url, now_us=now_us, address=f"http://{name}:8090") for name in ("one", "two")]
    for server in both:
        await server.store.join()
    yield both[0], both[1]
    for server in both:
        await server.store.close()


@pytest.fixture
async def relays(servers: tuple[ServerDatabase, ServerDatabase]) -> tuple[PostgresRelay, PostgresRelay]:
    """For the leader, in epoch 1, and for another server."""
    assert (await servers[0].store.begin_term()).epoch == 1
    return servers[0].relay, servers[1].relay


async def test_followers_read_the_exact_readings_of_the_leader(relays: tuple[PostgresRelay, PostgresRelay]) -> None:
    mine, theirs = relays
    assert await theirs.newest(known=None) is None
    assert await mine.put(sheet(), epoch=1, number=7)
    told = await theirs.newest(known=None)
    assert told is not None
    assert (told.epoch, told.number, told.sheet) == (1, 7, sheet())
    assert 0 <= told.age_s < 60


async def test_known_readings_are_not_read_again(relays: tuple[PostgresRelay, PostgresRelay]) -> None:
    mine, theirs = relays
    await mine.put(sheet(), epoch=1, number=1)
    known = await theirs.newest(known=(1, 1))
    assert known is not None
    assert known.sheet is None
    await mine.put(sheet(50.0), epoch=1, number=2)
    news = await theirs.newest(known=(1, 1))
    assert news is not None
    assert (news.number, news.sheet) == (2, sheet(50.0))


async def test_keeping_a_sheet_of_readings_resets_its_age(
    relays: tuple[PostgresRelay, PostgresRelay], postgres_place: Place
) -> None:
    mine, theirs = relays
    await mine.put(sheet(), epoch=1, number=1)
    await postgres_place.execute("UPDATE readings SET told_us = told_us - 90000000")
    old = await theirs.newest(known=None)
    assert old is not None
    assert old.age_s > 90
    assert await mine.keep(epoch=1, number=1)
    young = await theirs.newest(known=None)
    assert young is not None
    assert young.age_s < old.age_s - 60
    assert not await mine.keep(epoch=1, number=2)


async def test_a_leader_whose_term_has_ended_cannot_publish_readings(
    servers: tuple[ServerDatabase, ServerDatabase],
) -> None:
    """A leader that was frozen does not know yet."""
    old, new = (server.relay for server in servers)
    await servers[0].store.begin_term()
    assert await old.put(sheet(), epoch=1, number=9)
    await servers[1].store.begin_term()
    assert await old.newest(known=None) is None
    assert not await old.put(sheet(1.0), epoch=1, number=10)
    assert not await old.keep(epoch=1, number=9)
    assert await new.put(sheet(2.0), epoch=2, number=1)
    assert not await old.put(sheet(3.0), epoch=1, number=11)
    told = await old.newest(known=(1, 9))
    assert told is not None
    assert (told.epoch, told.number, told.sheet) == (2, 1, sheet(2.0))


async def test_readings_of_a_new_leader_are_not_overwritten_by_the_previous_leader(
    servers: tuple[ServerDatabase, ServerDatabase], postgres_place: Place
) -> None:
    """The counter was read before the term ended, the row is written after it."""
    old, new = (server.relay for server in servers)
    await servers[0].store.begin_term()
    await servers[1].store.begin_term()
    await new.put(sheet(2.0), epoch=2, number=1)
    await postgres_place.execute("UPDATE counter SET epoch = 1")
    assert not await old.put(sheet(1.0), epoch=1, number=1)
    await postgres_place.execute("UPDATE counter SET epoch = 2")
    told = await old.newest(known=None)
    assert told is not None
    assert told.sheet == sheet(2.0)


async def test_the_readings_table_is_unlogged(servers: tuple[ServerDatabase, ServerDatabase]) -> None:
    def persistence(connection: Connection) -> str:
        return connection.execute(
            text("SELECT relpersistence::text FROM pg_class WHERE relname = 'readings'")
        ).scalar_one()

    assert await servers[0].store.read(persistence) == "u"
