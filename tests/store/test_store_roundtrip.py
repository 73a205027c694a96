"""Every field of every record is restored from its row and its event, in both databases."""

from functools import partial
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sqlalchemy import Connection, select

import store_records as make
from aliquot.store.commit import commit_group
from aliquot.store.mapping import MAPPINGS, RecordMapping
from aliquot.store.queries.queries import events_after
from aliquot.store.store import Database
from aliquot_schema.events import Record
from aliquot_schema.identity.accounts import User
from aliquot_schema.sessions import Session
from store_strategies import of_type

pytestmark = pytest.mark.anyio

_serial = count(1)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=st.tuples(*(of_type(kind) for kind in MAPPINGS)))
async def test_records_come_back_as_they_were(database: Database, drawn: tuple[Any, ...]) -> None:
    records = [_fresh(record) for record in drawn]
    (events,) = await database.write(partial(commit_group, batches=[make.batch(*records)]))
    assert not isinstance(events, Exception), events
    assert await database.read(partial(_rows, records=records)) == records
    assert await database.read(partial(events_after, number=events[0].number - 1, limit=len(records))) == events

    changed = [replace(record, version=2) for record in records]
    (changes,) = await database.write(partial(commit_group, batches=[make.batch(*changed)]))
    assert not isinstance(changes, Exception), changes
    assert await database.read(partial(_rows, records=changed)) == changed


def test_every_field_has_a_column_of_its_own() -> None:
    for kind, mapping in MAPPINGS.items():
        assert mapping.names == tuple(kind.__struct_fields__)
        worked_out = ("gpus_milli",) if kind is Session else ()
        assert (*mapping.names, *worked_out) == tuple(mapping.table.c.keys())


def _fresh(record: Any) -> Any:
    """The record as a first version, with its own id and its own values in unique columns."""
    changes: dict[str, Any] = {"id": f"{record.id}{next(_serial)}", "version": 1}
    for name in ("idempotency_key", "subject", "account"):
        if isinstance(record, Session | User) and getattr(record, name, None) is not None:
            changes[name] = f"{getattr(record, name)}{next(_serial)}"
    return replace(record, **changes)


def _rows(connection: Connection, *, records: list[Record]) -> list[Record]:
    return [_row(connection, MAPPINGS[type(record)], record.id) for record in records]


def _row(connection: Connection, mapping: RecordMapping[Any], record_id: str) -> Record:
    table = mapping.table
    stored: Record = mapping.from_row(connection.execute(select(table).where(table.c.id == record_id)).one())
    return stored
