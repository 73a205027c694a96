"""The event log as an account of who did what, each change with what was before.

Environments lose their values, and keys their digests.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, select

from aliquot.service.auditing.ports import AuditQuery, Change
from aliquot.store.tables import EVENTS

REDACTED: Final = "***"

Version = tuple[str, str, int]
"""Of what an event tells: its entity, its id, and which version of it."""


class Account:
    """Events that were asked for, with what the same things were before them."""

    def __init__(self) -> None:
        self.events: list[Mapping[str, Any]] = []
        """The newest first; each with the columns of the table."""
        self.payloads: dict[Version, str] = {}
        """Of versions that came before those of the events, as far as they were found."""

    def lacking(self) -> set[Version]:
        """Versions that came before those of the events, and were not found yet."""
        return {before for event in self.events if (before := _before(event))[2]} - self.payloads.keys()

    def changes(self) -> tuple[Change, ...]:
        """Oldest first."""
        return tuple(_change(event, self.payloads.get(_before(event))) for event in reversed(self.events))


def changes(connection: Connection, query: AuditQuery) -> tuple[Change, ...]:
    """The newest changes, oldest first."""
    return account(connection, query).changes()


def account(connection: Connection, query: AuditQuery) -> Account:
    """What the table of events says."""
    asked = select(EVENTS).where(*conditions(query, EVENTS.c.__getitem__)).order_by(EVENTS.c.number.desc())
    found = Account()
    found.events += [dict(row) for row in connection.execute(asked.limit(query.limit)).mappings()]
    for entity, entity_id, version in found.lacking():
        asked = select(EVENTS.c.payload).where(
            EVENTS.c.entity_id == entity_id, EVENTS.c.entity_version == version, EVENTS.c.entity == entity
        )
        payload = connection.execute(asked).scalar_one_or_none()
        if payload is not None:
            found.payloads[entity, entity_id, version] = payload
    return found


def conditions(query: AuditQuery, column: Callable[[str], Any]) -> list[Any]:
    """What holds for the events that are asked for.

    Args:
        column: of the table, or of a file with the same columns, by name: whatever can be compared.
    """
    number, at_us, actor = column("number"), column("at_us"), column("actor")
    found = [column("entity_id") == query.entity_id] if query.entity_id is not None else []
    if query.actor is not None:
        found.append(actor == query.actor)
    if query.kind is not None:
        found.append(_is_of_kind(query.kind, column))
    if query.first_us is not None:
        found.append(at_us >= query.first_us)
    if query.last_us is not None:
        found.append(at_us <= query.last_us)
    if query.before is not None:
        found.append(number < query.before)
    if query.after:
        found.append(number > query.after)
    if query.kinds:
        found.append(reduce(or_, (_is_of_kind(kind, column) for kind in query.kinds)))
    if query.people_only:
        found.append((actor < "system:") | (actor >= "system;"))  # all that begins with `system:` is between them
    return found


def redacted(record: dict[str, Any]) -> dict[str, Any]:
    """A record without the values of its environment, of which the names stay, and without what a key is known by."""
    if "digest" in record:
        record = {**record, "digest": REDACTED}
    spec = record.get("spec")
    if not isinstance(spec, dict) or "environment" not in spec:
        return record
    return {**record, "spec": {**spec, "environment": dict.fromkeys(spec["environment"], REDACTED)}}


def version_of(event: Mapping[str, Any]) -> Version:
    """What an event tells of."""
    return event["entity"], event["entity_id"], event["entity_version"]


def _before(event: Mapping[str, Any]) -> Version:
    entity, entity_id, version = version_of(event)
    return entity, entity_id, version - 1


def _is_of_kind(kind: str, column: Callable[[str], Any]) -> Any:
    return column("kind") == kind if "." in kind else column("entity") == kind


def _change(event: Mapping[str, Any], former: str | None) -> Change:
    after = redacted(msgspec.json.decode(event["payload"]))
    before = None if former is None else redacted(msgspec.json.decode(former))
    if before is not None:
        differing = [name for name in after if before.get(name) != after[name] and name != "version"]
        before = {name: before.get(name) for name in differing}
        after = {name: after[name] for name in differing}
    return Change(
        number=event["number"],
        at_us=event["at_us"],
        kind=event["kind"],
        entity_id=event["entity_id"],
        actor=event["actor"],
        request_id=event["request_id"],
        pass_number=event["pass_number"],
        before=before,
        after=after,
    )
