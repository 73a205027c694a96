"""The table of holdings follows the log, however it is updated."""

import asyncio

import pytest
from sqlalchemy import Connection, func, select

from aliquot.store.audit.holdings import HOLDINGS, MARKS, follow
from store_places import Place
from store_records import batch, kernel, lease, session

pytestmark = pytest.mark.anyio


def counted(connection: Connection) -> tuple[int, int]:
    """Rows of holdings, and of marks."""
    holdings, marks = (select(func.count()).select_from(table) for table in (HOLDINGS, MARKS))
    return connection.execute(holdings).scalar_one(), connection.execute(marks).scalar_one()


async def test_concurrent_updates_of_the_holdings_table_apply_every_event_once(place: Place) -> None:
    store = place.store()
    await store.open()
    try:
        asked = [session() for _ in range(20)]
        ranks = [kernel(one) for one in asked]
        leases = [lease(one, spec={"cuda.device": {"GPU-0": 1}}) for one in ranks]
        await store.commit(batch(*asked, *ranks, *leases))
        await asyncio.gather(*(store.write(follow) for _ in range(8)))
        assert await store.read(counted) == (20, 1)
    finally:
        await store.close()
