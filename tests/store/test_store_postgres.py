"""PostgreSQL only: several servers on one log, and a database that goes away."""

import asyncio
from functools import partial

import asyncpg
import pytest
from sqlalchemy import Connection, Engine, make_url
from sqlalchemy.event import listen, remove
from sqlalchemy.ext.asyncio import create_async_engine

import store_records as make
from aliquot.service.ports import DuplicateKey, NotLeader, StaleVersion, Store, StoreUnavailable
from aliquot.store.commit import write_batches
from aliquot.store.hash_chain import verify
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState
from store_places import Place

pytestmark = pytest.mark.anyio


@pytest.fixture
def place(postgres_place: Place) -> Place:
    return postgres_place


@pytest.mark.parametrize("commits", [True, False])
async def test_open_transactions_commit_in_the_order_of_their_event_numbers(
    place: Place, store: Store, commits: bool
) -> None:
    """A reader never sees a number before a smaller one, and a rollback leaves no gap."""
    engine = create_async_engine(make_url(place.url).set(drivername="postgresql+asyncpg"))
    async with engine.connect() as other_server:
        transaction = await other_server.begin()
        ((first,),) = await other_server.run_sync(partial(write_batches, batches=[make.batch(make.session())]))
        second = asyncio.create_task(store.commit(make.batch(make.session())))
        await _until_someone_waits_for_a_lock(place)
        assert await store.events_after(0, limit=10) == ()
        await (transaction.commit() if commits else transaction.rollback())
    await engine.dispose()
    (event,) = await second
    assert (first.number, event.number) == (1, 2 if commits else 1)
    assert [seen.number for seen in await store.events_after(0, limit=10)] == list(range(1, event.number + 1))


async def test_two_servers_share_one_log(place: Place, store: Store) -> None:
    other = place.store()
    assert (await other.open()).epoch == 2
    numbers: list[int] = []

    async def client(server: Store) -> None:
        for _ in range(20):
            numbers.extend(event.number for event in await server.commit(make.batch(make.session(), make.session())))

    await asyncio.gather(*(client(server) for server in (store, other) for _ in range(6)))
    assert sorted(numbers) == list(range(1, 481))
    seen = await store.events_after(0, limit=1000)
    assert [event.number for event in seen] == sorted(numbers)
    await other.close()
    database = place.database()
    await database.open()
    assert await database.read(verify) == 480
    await database.close()


async def test_only_one_of_two_servers_that_update_the_same_rows_succeeds(place: Place, store: Store) -> None:
    other = place.store()
    await other.open()
    rows = [make.session() for _ in range(10)]
    await store.commit(make.batch(*rows))
    moves = [make.moved(row, SessionState.CANCELED) for row in rows]
    # In opposite orders, where locks taken in the given order would deadlock.
    rivals = [store.commit(make.batch(*moves)), other.commit(make.batch(*reversed(moves)))]
    outcomes = await asyncio.gather(*rivals, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {tuple, StaleVersion}
    await other.close()


async def test_deadlocked_inserts_end_with_a_duplicate_key_error(place: Place, store: Store) -> None:
    other = place.store()
    await other.open()

    def keyed(*keys: str) -> tuple[Session, ...]:
        return tuple(make.session(idempotency_key=key) for key in keys)

    for attempt in range(5):
        left, right = f"left-{attempt}", f"right-{attempt}"
        rivals = [store.commit(make.batch(*keyed(left, right))), other.commit(make.batch(*keyed(right, left)))]
        outcomes = await asyncio.gather(*rivals, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {tuple, DuplicateKey}
    await other.close()


async def test_a_commit_of_an_earlier_epoch_is_refused(place: Place, store: Store) -> None:
    other = place.store()
    loaded = await other.open()
    with pytest.raises(NotLeader):
        await store.commit(make.batch(make.session(), epoch=loaded.epoch - 1))
    await other.commit(make.batch(make.session(), epoch=loaded.epoch))
    await other.close()


async def test_lost_connections_are_made_again(place: Place, store: Store) -> None:
    await store.commit(make.batch(make.session()))
    await place.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'aliquot'")
    with pytest.raises(StoreUnavailable):
        await store.commit(make.batch(make.session()))
    (event,) = await store.commit(make.batch(make.session()))
    assert event.number == 2


async def test_a_transaction_left_open_by_a_stopped_server_times_out(place: Place, store: Store) -> None:
    """Its lock on the counter would block all other writers."""
    database = place.database()
    await database.open()
    shown = await database.read(
        lambda opened: opened.exec_driver_sql("SHOW idle_in_transaction_session_timeout").scalar_one()
    )
    await database.close()
    assert shown == "10s"


@pytest.mark.parametrize(
    "change", [{"database": "nobody"}, {"query": {"host": "/nowhere"}}, {"query": {"host": "127.0.0.1", "port": "1"}}]
)
async def test_an_unreachable_database_is_reported(place: Place, change: dict[str, object]) -> None:
    url = make_url(place.url).set(**change)  # type: ignore[arg-type]  # the parameters are data here
    with pytest.raises(StoreUnavailable, match="the database cannot be"):
        await Place(url.render_as_string(hide_password=False), place.folder).store().open()


async def _until_someone_waits_for_a_lock(place: Place) -> None:
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    connection = await asyncpg.connect(place.url)
    async with asyncio.timeout(30):
        while not await connection.fetch(waiting):
            pass
    await connection.close()


async def test_a_change_whose_commit_was_not_confirmed_is_said_to_be_possible(store: Store) -> None:
    def lose(connection: Connection) -> None:
        connection.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")

    said = "the change may have been made all the same: .* repeat it with the same idempotency key"
    listen(Engine, "commit", lose)
    try:
        with pytest.raises(StoreUnavailable, match=said):
            await store.commit(make.batch(make.session()))
    finally:
        remove(Engine, "commit", lose)
    await store.commit(make.batch(make.session()))
