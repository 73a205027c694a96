"""A database of the first version is brought to this one with all that it holds."""

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

import store_first_schema as first
from aliquot.service.ports import Store
from aliquot.store.checking import checked
from aliquot.store.postgres import PostgresDatabase
from aliquot.store.sqlite import connect_writer
from aliquot_schema.agents import Agent
from aliquot_schema.leases import Kernel, Lease
from aliquot_schema.sessions import Session, SessionState
from store_places import Place

pytestmark = pytest.mark.anyio


def _begin(connection: Connection) -> None:
    with connection.begin():
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", "aliquot.store:migrations")
        config.set_main_option("path_separator", "os")
        command.upgrade(config, "0001")
        first.fill(connection)


async def make_first_database(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the first version left it."""
    if not place.url:
        place.sqlite_file.parent.mkdir(parents=True)
        with connect_writer(place.sqlite_file) as connection:
            _begin(connection)
        return
    with monkeypatch.context() as older:
        older.setattr("aliquot.store.postgres.migrate", _begin)
        database = place.database()
        assert isinstance(database, PostgresDatabase)
        await database.open()
        await database.close()


async def test_the_first_database_is_upgraded_with_its_rows(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    await make_first_database(place, monkeypatch)
    store = place.store()
    loaded = await store.open()
    try:
        (session,) = (record for record in loaded.records if isinstance(record, Session))
        assert (session.id, session.state, session.version) == ("ses_01", SessionState.RUNNING, 3)
        assert dict(session.spec.environment) == {"A": "b"}
        assert (session.preemptions, session.tasks, session.array_id) == (0, None, None)
        assert {type(record) for record in loaded.records} >= {Session, Kernel, Lease, Agent}
        assert (loaded.revision, loaded.last_pass) == (len(first.LOG), 3)
        assert (await store.read(checked)).faults == []
        events = await store.events_after(0, limit=100)
        assert [event.kind for event in events] == [f"{entity}.{what}" for entity, what, _ in first.LOG]
        await _goes_on(store, session)
    finally:
        await store.close()
    copies = list(place.folder.rglob("*.0001.*.backup"))
    assert len(copies) == (0 if place.url else 1)


async def _goes_on(store: Store, session: Session) -> None:
    assert await store.session_by_key(session.owner, "key") == session
    assert len(await store.session_records(session.id)) == 3
