"""Audit log: the events as changes, each with the former values, and events for commands that act on a database.

Values of environment variables, those of session templates too, and digests of keys are redacted.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection, select
from sqlalchemy.exc import IntegrityError

from aliquot.service.audit.audit import AuditQuery, Change
from aliquot.service.ports import Batch, RowWrite, StaleVersion
from aliquot.store.commit import write_batches
from aliquot.store.mapping import ACTION
from aliquot.store.tables import COUNTER, EVENTS
from aliquot_schema.identity.accounts import actor_parts
from aliquot_schema.ids import RequestId
from aliquot_schema.orchestration import Action

REDACTED: Final = "***"

Version = tuple[str, str, int]
"""Entity, entity id and version that an event records."""


class Account:
    """Events of a query, with the former states of their records."""

    def __init__(self) -> None:
        self.events: list[Mapping[str, Any]] = []
        """Newest first, with the columns of the table."""
        self.payloads: dict[Version, str] = {}
        """Former states found so far, as JSON text."""

    def lacking(self) -> set[Version]:
        """Former versions that were not found yet."""
        return {before for event in self.events if (before := _before(event))[2]} - self.payloads.keys()

    def changes(self) -> tuple[Change, ...]:
        """The changes, oldest first."""
        return tuple(_change(event, self.payloads.get(_before(event))) for event in reversed(self.events))


def changes(connection: Connection, query: AuditQuery) -> tuple[Change, ...]:
    """The newest changes, oldest first."""
    return account(connection, query).changes()


def account(connection: Connection, query: AuditQuery) -> Account:
    """The events of a query, as far as the table has them."""
    stmt = select(EVENTS).where(*conditions(query, EVENTS.c.__getitem__)).order_by(EVENTS.c.number.desc())
    found = Account()
    found.events += [dict(row) for row in connection.execute(stmt.limit(query.limit)).mappings()]
    for entity, entity_id, version in found.lacking():
        stmt = select(EVENTS.c.payload).where(
            EVENTS.c.entity_id == entity_id, EVENTS.c.entity_version == version, EVENTS.c.entity == entity
        )
        payload = connection.execute(stmt).scalar_one_or_none()
        if payload is not None:
            found.payloads[entity, entity_id, version] = payload
    return found


def conditions(query: AuditQuery, column: Callable[[str], Any]) -> list[Any]:
    """The conditions of a query.

    Args:
        column: returns a column of the table, or of a Parquet file with the same columns, by name.
    """
    number, at_us, actor = column("number"), column("at_us"), column("actor")
    found = [column("entity_id") == query.entity_id] if query.entity_id is not None else []
    if query.actor is not None:
        with_a_key = (actor > f"{query.actor}/") & (actor < f"{query.actor}0")  # `0` is the character after `/`
        found.append((actor == query.actor) | with_a_key)
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
        found.append((actor < "system:") | (actor >= "system;"))  # the bounds enclose the prefix `system:`
    return found


def redacted(record: dict[str, Any]) -> dict[str, Any]:
    """A record with environment values and key digests redacted; names of a session's variables remain."""
    if "digest" in record:
        record = {**record, "digest": REDACTED}
    spec, facts = record.get("spec"), record.get("facts")
    if isinstance(spec, dict) and "environment" in spec:
        record = {**record, "spec": {**spec, "environment": dict.fromkeys(spec["environment"], REDACTED)}}
    if isinstance(facts, dict) and "fields" in facts:
        record = {**record, "facts": {**facts, "fields": _redacted_template(facts["fields"])}}
    return record


def _redacted_template(fields: str) -> str:
    """The fields of a session template, with its whole environment redacted: it may be in any form."""
    try:
        form = msgspec.json.decode(fields, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError):
        return REDACTED
    return msgspec.json.encode({**form, "environment": REDACTED}).decode() if "environment" in form else fields


def version_of(event: Mapping[str, Any]) -> Version:
    """The version that an event records."""
    return event["entity"], event["entity_id"], event["entity_version"]


def _before(event: Mapping[str, Any]) -> Version:
    entity, entity_id, version = version_of(event)
    return entity, entity_id, version - 1


def _is_of_kind(kind: str, column: Callable[[str], Any]) -> Any:
    return column("kind") == kind if "." in kind else column("entity") == kind


def _change(event: Mapping[str, Any], former: str | None) -> Change:
    after = redacted(msgspec.json.decode(event["payload"]))
    before = None if former is None or _stands_alone(event) else redacted(msgspec.json.decode(former))
    if before is not None:
        differing = [name for name in after if before.get(name) != after[name] and name != "version"]
        before = {name: before.get(name) for name in differing}
        after = {name: after[name] for name in differing}
    actor, key_id = actor_parts(event["actor"])
    return Change(
        number=event["number"],
        at_us=event["at_us"],
        kind=event["kind"],
        entity_id=event["entity_id"],
        actor=actor,
        key_id=key_id,
        request_id=event["request_id"],
        pass_number=event["pass_number"],
        before=before,
        after=after,
    )


def _stands_alone(event: Mapping[str, Any]) -> bool:
    """Whether it is an action that does not change the one before it of the same id.

    Templates and keys of agents have no records of their own: the actions on one of them are its history.
    """
    return bool(event["entity"] == "action" and not event["entity_id"].startswith(("template/", "agent_key/")))


T = TypeVar("T")

_TRIES: Final = 5


class AuditAuthor(Struct, frozen=True, kw_only=True):
    """The account that runs a command, and the time."""

    actor: str
    """`unix:<account>`."""
    request_id: RequestId
    at_us: int


def note(connection: Connection, what: str, facts: Mapping[str, str], *, by: AuditAuthor) -> None:
    """Commit an event before an action. If the action then fails, the event remains in the log."""

    def write(connection: Connection) -> None:
        with connection.begin():
            note_within(connection, [action(connection, what, facts)], by=by)

    with_retries(write)(connection)


def note_within(connection: Connection, writes: Sequence[RowWrite], *, by: AuditAuthor) -> None:
    """Write records and their events in the open transaction.

    A database without events is left unchanged, because an import needs an empty one.

    Raises:
        StaleVersion, IntegrityError: another process wrote the same rows first; see `with_retries`.
    """
    if connection.execute(select(COUNTER.c.number)).scalar_one():
        batch = Batch(writes=tuple(writes), at_us=by.at_us, actor=by.actor, request_id=by.request_id)
        write_batches(connection, [batch])


def action(connection: Connection, what: str, facts: Mapping[str, str]) -> RowWrite:
    """The next version of an action's record, locked until the transaction ends."""
    stmt = select(ACTION.table).where(ACTION.table.c.id == what).with_for_update()
    row = connection.execute(stmt).one_or_none()
    former = Action(id=what) if row is None else ACTION.from_row(row)
    return RowWrite(record=replace(former, version=former.version + 1, facts=facts), kind=f"action.{what}")


def with_retries(work: Callable[[Connection], T]) -> Callable[[Connection], T]:
    """Retry a transaction, up to 5 attempts, if a server or another command wrote the same rows."""

    def run(connection: Connection) -> T:
        for tries_left in reversed(range(_TRIES)):
            try:
                return work(connection)
            except (StaleVersion, IntegrityError):
                if not tries_left:
                    raise
        raise AssertionError("the last try returns or raises")

    return run
