"""Record mapping: records to rows and back, and records to JSON payloads and back.

Numbers and text are stored as they are, enums by value, nested values as JSON text. In JSON, amounts are integers in
base units, and an unlimited amount is a word. Statements that write rows are compiled once per database and executed
with plain tuples: binding parameters through SQLAlchemy costs about 7 us per row and 70 us per statement, so only its
SQL text is used. On PostgreSQL each commit notifies all servers on `CHANNEL` that the log has grown.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from operator import attrgetter
from sys import intern
from types import NoneType, UnionType
from typing import Any, Final, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from sqlalchemy import (
    ClauseElement,
    Connection,
    CursorResult,
    Dialect,
    Table,
    bindparam,
    insert,
    literal_column,
    update,
)
from sqlalchemy.sql.compiler import SQLCompiler

from aliquot.store import alert_tables, tables
from aliquot.store.tables import (
    ACCOUNTS,
    AGENTS,
    BOOKINGS,
    COUNTER,
    FINDINGS,
    KERNELS,
    LEASES,
    POLICIES,
    QUOTAS,
    SESSIONS,
    SLOTS,
)
from aliquot_schema.alerts import Alert, Delivery, NoticeMark, NoticeRule, Subscriber
from aliquot_schema.billing import Statement
from aliquot_schema.bookings import Booking
from aliquot_schema.cluster.agents import Agent, KnownSlot
from aliquot_schema.cluster.findings import Finding
from aliquot_schema.events import KIND_OF, Record, for_every_kind
from aliquot_schema.identity.accounts import ApiKey, User
from aliquot_schema.identity.secrets import SecretNames
from aliquot_schema.ids import AgentId, KeyId, PoolId, ProjectId, UserId
from aliquot_schema.orchestration import Action, Orchestration
from aliquot_schema.policies import VICTIMS, PolicyDocument, Preemption, PreemptScope
from aliquot_schema.quotas import Account, Quota
from aliquot_schema.resources.leases import Kernel, Lease
from aliquot_schema.resources.slots import UNLIMITED, UNLIMITED_TEXT, SlotAmounts
from aliquot_schema.sessions import Session


def encoder() -> msgspec.json.Encoder:
    """A JSON encoder for records and their fields."""
    return msgspec.json.Encoder(enc_hook=_to_builtins)


class RecordDecoder:
    """A JSON decoder for one record or field type. Unknown fields are skipped.

    Names of fields that earlier versions stored are read as today's, because events and archives are never rewritten.
    """

    def __init__(self, kind: Any, *, renamed: Sequence["RenamedField"]) -> None:
        self._decoder = msgspec.json.Decoder(kind, dec_hook=_from_builtins)
        self._renamed = renamed

    def decode(self, text: str | bytes) -> Any:
        """The record or the value of the field."""
        for field in self._renamed:
            text = field.with_current_names(text)
        return self._decoder.decode(text)


class RenamedField:
    """A stored field that had another name in earlier versions.

    Args:
        before, after: the JSON around the old name with its quotes, as regular expressions. A quote within a stored
            text is escaped, so the name is found as a key only.
    """

    def __init__(self, old: str, new: str, *, before: str = "", after: str = "") -> None:
        self._old = f'"{old}":'.encode()
        self._new = rb"\g<before>" + f'"{new}":'.encode()
        self._pattern = re.compile(rf'(?<!\\)(?P<before>{before})"{old}":{after}'.encode())

    def with_current_names(self, text: str | bytes) -> str | bytes:
        """The JSON text with the new name."""
        data = text.encode() if isinstance(text, str) else text
        return self._pattern.sub(self._new, data) if self._old in data else text


PREEMPT_IN_POLICY: Final = RenamedField("victims", "preempt", before=r'"preemption":\{')
RENAMED: Final[Mapping[Any, Sequence[RenamedField]]] = {
    PolicyDocument: [PREEMPT_IN_POLICY],
    Preemption: [RenamedField("victims", "preempt", before=r"^\{")],
}


def decoder(kind: Any, *, renamed: Sequence[RenamedField] = ()) -> RecordDecoder:
    """A JSON decoder for one record or field type.

    Args:
        renamed: fields within `kind` that had other names, besides those of `RENAMED`.
    """
    return RecordDecoder(kind, renamed=[*renamed, *RENAMED.get(kind, ())])


def _to_builtins(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"{type(value).__name__} has no form in JSON")


def _from_builtins(kind: type, value: Any) -> object:
    if issubclass(kind, SlotAmounts):
        return _amounts(kind, tuple(value.items()))
    raise NotImplementedError(f"{kind.__name__} has no form in JSON")


@lru_cache(maxsize=4096)
def _amounts(kind: type[SlotAmounts], items: tuple[tuple[str, Any], ...]) -> SlotAmounts:
    """Cached, because many sessions request the same amounts."""
    return kind({slot: UNLIMITED if amount == UNLIMITED_TEXT else amount for slot, amount in items})


ENCODER: Final = encoder()
_PREEMPT: Final = re.compile(rb'(?P<before>^|"preemption":)\{"preempt":"(?P<word>\w+)"')


def to_json(value: object) -> bytes:
    """The JSON of a record or of a field.

    Preemption rules have `victims` too, the former name of `preempt`, in its former words: a version before the rename
    would otherwise read its default. Decoders of this version skip it.
    """
    data = ENCODER.encode(value)
    return _PREEMPT.sub(_with_victims, data) if isinstance(value, PolicyDocument | Preemption) else data


def _with_victims(found: re.Match[bytes]) -> bytes:
    victims = VICTIMS[PreemptScope(found["word"].decode())]
    return found[0] + f',"victims":"{victims.value}"'.encode()


R = TypeVar("R", bound=Record)

SHARED_MAX: Final = 512
SHARED_CHARS_MAX: Final = 1000
"""Longer texts rarely repeat."""
REPEATED: Final = (UserId, ProjectId, PoolId, AgentId, KeyId)
"""Ids that many rows have in common: each is in memory once."""


class RecordMapping(Generic[R]):
    """The mapping of one record type to its table. Rows are tuples in table order.

    Columns after those of the fields hold derived values to sort by; they are written and never read.
    """

    def __init__(self, record: type[R], *, table: Table) -> None:
        self.record = record
        self.entity = KIND_OF[record].entity
        self.table = table
        self.names = record.__struct_fields__
        columns = tuple(table.c.keys())
        if self.names != columns[: len(self.names)] or not all(hasattr(record, name) for name in columns):
            raise TypeError(f"{table.name} and {record.__name__} do not have the same fields in the same order")
        hints = get_type_hints(record)
        codecs = [(index, _codec(hints[name])) for index, name in enumerate(self.names)]
        self._codecs = [(index, codec) for index, codec in codecs if codec is not None]
        self._repeated = [index for index, name in enumerate(self.names) if _not_none(hints[name]) in REPEATED]
        self._values = attrgetter(*columns)
        self._decoder = decoder(record)

    def to_row(self, record: R) -> tuple[Any, ...]:
        """The record as a row."""
        row = list(self._values(record))
        for index, (encode, _) in self._codecs:
            if row[index] is not None:
                row[index] = encode(row[index])
        return tuple(row)

    def from_row(self, row: Sequence[Any]) -> R:
        """The inverse of `to_row`."""
        values = list(row[: len(self.names)])
        for index, (_, decode) in self._codecs:
            if values[index] is not None:
                values[index] = decode(values[index])
        for index in self._repeated:
            if values[index] is not None:
                values[index] = intern(values[index])
        return self.record(**dict(zip(self.names, values, strict=True)))

    def matches(self, row: Sequence[Any], record: R) -> bool:
        """Whether a row equals this record, derived columns included."""
        derived = slice(len(self.names), None)
        return self.from_row(row) == record and tuple(row[derived]) == self.to_row(record)[derived]

    def from_payload(self, payload: str) -> R:
        """Decode the record from an event's payload."""
        record: R = self._decoder.decode(payload)
        return record


Codec = tuple[Callable[[Any], Any], Callable[[Any], Any]]


def _codec(hint: Any) -> Codec | None:
    """Encoder and decoder of a field type; None if the database stores the value as it is."""
    kind = _plain(hint)
    if kind in (str, int, bool):
        return None
    if isinstance(kind, type) and issubclass(kind, Enum):
        return attrgetter("value"), {member.value: member for member in kind}.__getitem__
    return _to_json, _shared(decoder(hint).decode)


def _shared(decode: Callable[[str], Any]) -> Callable[[str], Any]:
    """Decode short texts through a cache: many rows have the same text."""
    cached = lru_cache(maxsize=SHARED_MAX)(decode)
    return lambda text: (cached if len(text) <= SHARED_CHARS_MAX else decode)(text)


def _not_none(hint: Any) -> Any:
    """The type below `| None`."""
    if get_origin(hint) in (UnionType, Union):
        return next(part for part in get_args(hint) if part is not NoneType)
    return hint


def _plain(hint: Any) -> Any:
    """The type below `| None` and NewTypes."""
    hint = _not_none(hint)
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    return hint


def _to_json(value: object) -> str:
    return to_json(value).decode()


SESSION: Final = RecordMapping(Session, table=SESSIONS)
KERNEL: Final = RecordMapping(Kernel, table=KERNELS)
LEASE: Final = RecordMapping(Lease, table=LEASES)
AGENT: Final = RecordMapping(Agent, table=AGENTS)
SLOT: Final = RecordMapping(KnownSlot, table=SLOTS)
POLICY: Final = RecordMapping(PolicyDocument, table=POLICIES)
QUOTA: Final = RecordMapping(Quota, table=QUOTAS)
ACCOUNT: Final = RecordMapping(Account, table=ACCOUNTS)
STATEMENT: Final = RecordMapping(Statement, table=tables.STATEMENTS)
ORCHESTRATION: Final = RecordMapping(Orchestration, table=tables.ORCHESTRATION)
FINDING: Final = RecordMapping(Finding, table=FINDINGS)
USER: Final = RecordMapping(User, table=tables.USERS)
KEY: Final = RecordMapping(ApiKey, table=tables.KEYS)
SECRETS: Final = RecordMapping(SecretNames, table=tables.SECRET_NAMES)
ACTION: Final = RecordMapping(Action, table=tables.ACTIONS)
BOOKING: Final = RecordMapping(Booking, table=BOOKINGS)
RULE: Final = RecordMapping(NoticeRule, table=alert_tables.RULES)
ALERT: Final = RecordMapping(Alert, table=alert_tables.ALERTS)
DELIVERY: Final = RecordMapping(Delivery, table=alert_tables.DELIVERIES)
SUBSCRIBER: Final = RecordMapping(Subscriber, table=alert_tables.SUBSCRIBERS)
NOTICE_MARK: Final = RecordMapping(NoticeMark, table=alert_tables.NOTICE_MARKS)

MAPPINGS: Final[dict[type[Record], RecordMapping[Any]]] = for_every_kind(
    {
        mapping.record: mapping
        for mapping in (
            *(AGENT, SLOT, POLICY, QUOTA, SESSION, KERNEL, LEASE, ACCOUNT, FINDING, ORCHESTRATION, USER, KEY),
            *(RULE, ALERT, DELIVERY, SUBSCRIBER, NOTICE_MARK, SECRETS, ACTION, BOOKING, STATEMENT),
        )
    },
    part="a table with a RecordMapping in aliquot.store.mapping",
)
"""In the order in which tables are written and loaded."""
BY_ENTITY: Final[dict[str, RecordMapping[Any]]] = {str(m.entity): m for m in MAPPINGS.values()}


CHANNEL: Final = "aliquot_events"
SERVER_SETTING: Final = "aliquot.server"
"""Session setting with the server's id. A notification carries the id of the server that committed."""
NOTIFY: Final = f"pg_notify('{CHANNEL}', coalesce(current_setting('{SERVER_SETTING}', true), ''))"
"""Part of the last statement of a commit, so that it costs no round trip."""

Rows = Sequence[tuple[Any, ...]]


def insert_rows(connection: Connection, table: Table, rows: Rows) -> None:
    """Insert rows, each in table order."""
    connection.exec_driver_sql(_insert_text(table, connection.dialect), list(rows))


def replace_rows(connection: Connection, table: Table, rows: Rows) -> CursorResult[Any]:
    """Replace rows by id and version.

    Args:
        rows: the columns without `id` in table order, then the id and the version to replace.
    """
    return connection.exec_driver_sql(_replace_text(table, connection.dialect), list(rows))


def reserve_numbers(connection: Connection, count: int) -> Any:
    """Reserve `count` event numbers and return the counter's row, locked until the transaction ends."""
    return connection.exec_driver_sql(_reserve_text(connection.dialect), (count,)).one()


def write_end(connection: Connection, *, end_hash: bytes, at_us: int, pass_number: int) -> None:
    """Store hash, time and pass of the last event in the counter."""
    connection.exec_driver_sql(_end_text(connection.dialect), (end_hash, at_us, pass_number))


@lru_cache(maxsize=64)
def _insert_text(table: Table, dialect: Dialect) -> str:
    return _compiled(insert(table), dialect, names=table.c.keys())


@lru_cache(maxsize=64)
def _replace_text(table: Table, dialect: Dialect) -> str:
    columns = [column.name for column in table.c if column.name != "id"]
    statement = update(table).values({name: bindparam(name) for name in columns})
    statement = statement.where(table.c.id == bindparam("row_id"), table.c.version == bindparam("row_version"))
    return _compiled(statement, dialect, names=[*columns, "row_id", "row_version"])


@lru_cache(maxsize=8)
def _reserve_text(dialect: Dialect) -> str:
    moved = update(COUNTER).values(number=COUNTER.c.number + bindparam("count")).returning(*COUNTER.c)
    return _compiled(moved, dialect, names=["count"])


@lru_cache(maxsize=8)
def _end_text(dialect: Dialect) -> str:
    columns = ["hash", "at_us", "pass_number"]
    moved = update(COUNTER).values({name: bindparam(name) for name in columns})
    notifying = moved.returning(literal_column(NOTIFY)) if dialect.name == "postgresql" else moved
    return _compiled(notifying, dialect, names=columns)


def _compiled(statement: ClauseElement, dialect: Dialect, *, names: Sequence[str]) -> str:
    compiled = statement.compile(dialect=dialect)
    if not isinstance(compiled, SQLCompiler) or list(compiled.positiontup or ()) != list(names):
        raise TypeError(f"the parameters of {compiled} are not in the order {names}")
    return str(compiled)
