"""The event log as an account of who did what, each change with what was before. Environments lose their values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, and_, select

from aliquot.store.tables import EVENTS

REDACTED: Final = "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """Which changes to list. None does not filter."""

    entity_id: str | None = None
    actor: str | None = None
    kind: str | None = None
    """`session.queued`, or the part before the point."""
    first_us: int | None = None
    last_us: int | None = None
    people_only: bool = False
    """Leave out what the server did by itself."""
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One event."""

    number: int
    at_us: int
    kind: str
    entity_id: str
    actor: str
    request_id: str | None
    pass_number: int | None
    before: Mapping[str, Any] | None
    """The fields that have another value now; None = it was made by this event."""
    after: Mapping[str, Any]
    """The same fields; all of them, when it was made by this event."""


def changes(connection: Connection, query: AuditQuery) -> tuple[Change, ...]:
    """The newest changes, oldest first."""
    asked = select(EVENTS).where(*_conditions(query)).order_by(EVENTS.c.number.desc()).limit(query.limit)
    return tuple(_change(connection, row) for row in reversed(connection.execute(asked).all()))


def _conditions(query: AuditQuery) -> list[ColumnElement[bool]]:
    column = EVENTS.c
    found: list[ColumnElement[bool]] = []
    if query.entity_id is not None:
        found.append(column.entity_id == query.entity_id)
    if query.actor is not None:
        found.append(column.actor == query.actor)
    if query.kind is not None:
        found.append(column.kind == query.kind if "." in query.kind else column.entity == query.kind)
    if query.first_us is not None:
        found.append(column.at_us >= query.first_us)
    if query.last_us is not None:
        found.append(column.at_us <= query.last_us)
    if query.people_only:
        found.append(~column.actor.startswith("system:"))
    return found


def _change(connection: Connection, row: Row[Any]) -> Change:
    after, before = redacted(msgspec.json.decode(row.payload)), _before(connection, row)
    if before is not None:
        differing = [name for name in after if before.get(name) != after[name] and name != "version"]
        before = {name: before.get(name) for name in differing}
        after = {name: after[name] for name in differing}
    return Change(
        number=row.number,
        at_us=row.at_us,
        kind=row.kind,
        entity_id=row.entity_id,
        actor=row.actor,
        request_id=row.request_id,
        pass_number=row.pass_number,
        before=before,
        after=after,
    )


def _before(connection: Connection, row: Row[Any]) -> dict[str, Any] | None:
    is_former = and_(
        EVENTS.c.entity_id == row.entity_id,
        EVENTS.c.entity_version == row.entity_version - 1,
        EVENTS.c.entity == row.entity,
    )
    payload = connection.execute(select(EVENTS.c.payload).where(is_former)).scalar_one_or_none()
    return None if payload is None else redacted(msgspec.json.decode(payload))


def redacted(record: dict[str, Any]) -> dict[str, Any]:
    """A record without the values of its environment; their names stay."""
    spec = record.get("spec")
    if not isinstance(spec, dict) or "environment" not in spec:
        return record
    return {**record, "spec": {**spec, "environment": dict.fromkeys(spec["environment"], REDACTED)}}
