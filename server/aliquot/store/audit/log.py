"""The event log as an account of who did what, each change with what was before.

Environments lose their values, and keys their digests.
"""

from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, and_, or_, select

from aliquot.service.auditing.ports import AuditQuery, Change
from aliquot.store.tables import EVENTS

REDACTED: Final = "***"


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
        found.append(_is_of_kind(query.kind))
    if query.first_us is not None:
        found.append(column.at_us >= query.first_us)
    if query.last_us is not None:
        found.append(column.at_us <= query.last_us)
    if query.before is not None:
        found.append(column.number < query.before)
    if query.after:
        found.append(column.number > query.after)
    if query.kinds:
        found.append(or_(*(_is_of_kind(kind) for kind in query.kinds)))
    if query.people_only:
        found.append(~column.actor.startswith("system:"))
    return found


def _is_of_kind(kind: str) -> ColumnElement[bool]:
    return EVENTS.c.kind == kind if "." in kind else EVENTS.c.entity == kind


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
    """A record without the values of its environment, of which the names stay, and without what a key is known by."""
    if "digest" in record:
        record = {**record, "digest": REDACTED}
    spec = record.get("spec")
    if not isinstance(spec, dict) or "environment" not in spec:
        return record
    return {**record, "spec": {**spec, "environment": dict.fromkeys(spec["environment"], REDACTED)}}
