"""Events: the log of committed changes, in commit order, and the registry of the kinds of records they are about."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar, get_args

from msgspec import Struct

from aliquot_schema.alerts import Alert, Delivery, NoticeMark, NoticeRule, Subscriber
from aliquot_schema.billing import Statement
from aliquot_schema.bookings import Booking
from aliquot_schema.cluster.agents import Agent, KnownSlot
from aliquot_schema.cluster.findings import Finding
from aliquot_schema.identity.accounts import ApiKey, User
from aliquot_schema.identity.secrets import SecretNames
from aliquot_schema.orchestration import Action, Orchestration
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.quotas import Account, Quota
from aliquot_schema.resources.leases import Kernel, Lease
from aliquot_schema.sessions import Session

Record = (
    Session
    | Kernel
    | Lease
    | Agent
    | KnownSlot
    | PolicyDocument
    | Quota
    | Account
    | Finding
    | Orchestration
    | User
    | ApiKey
    | NoticeRule
    | Alert
    | Delivery
    | Subscriber
    | NoticeMark
    | SecretNames
    | Action
    | Booking
    | Statement
)
"""Every kind of record that the store keeps; an event carries the full new state of one."""

EVENT_FORMAT = 1


class Entity(StrEnum):
    """Kind of record an event is about."""

    SESSION = "session"
    KERNEL = "kernel"
    LEASE = "lease"
    AGENT = "agent"
    SLOT = "slot"
    POLICY = "policy"
    QUOTA = "quota"
    ACCOUNT = "account"
    FINDING = "finding"
    USER = "user"
    KEY = "key"
    ORCHESTRATION = "orchestration"
    NOTICE_RULE = "notice_rule"
    ALERT = "alert"
    DELIVERY = "delivery"
    SUBSCRIBER = "subscriber"
    NOTICE_MARK = "notice_mark"
    SECRETS = "secrets"
    ACTION = "action"
    BOOKING = "booking"
    STATEMENT = "statement"


T = TypeVar("T")


class RecordKind(Struct, frozen=True, kw_only=True):
    """One kind of durable record. Its table, its place in memory and its events derive from `RECORD_KINDS`."""

    record: type[Any]
    """A member of `Record`."""
    entity: Entity
    end: str | None = None
    """Field with the time at which a record is over, microseconds; None = records of this kind do not end."""


def registered(*kinds: RecordKind) -> tuple[RecordKind, ...]:
    """Check a registry.

    Raises:
        TypeError: a kind is incomplete; the message says what is missing.
    """
    records = [kind.record for kind in kinds]
    for record in {*get_args(Record)} - {*records}:
        raise TypeError(f"{record.__name__} is in Record and has no RecordKind; add it to RECORD_KINDS")
    for record in {*records} - {*get_args(Record)}:
        raise TypeError(f"{record.__name__} has a RecordKind and is not in Record; add it to that union")
    for entity in Entity:
        if (count := sum(kind.entity is entity for kind in kinds)) != 1:
            raise TypeError(f"{count} kinds of records have Entity.{entity.name}; give each kind one of its own")
    for kind in kinds:
        for field in ("id", "version", *([] if kind.end is None else [kind.end])):
            if not hasattr(kind.record, field):
                raise TypeError(f"{kind.record.__name__} has no field {field}, which its RecordKind needs")
    return kinds


RECORD_KINDS: Final = registered(
    RecordKind(record=User, entity=Entity.USER),
    RecordKind(record=ApiKey, entity=Entity.KEY),
    RecordKind(record=SecretNames, entity=Entity.SECRETS),
    RecordKind(record=Action, entity=Entity.ACTION),
    RecordKind(record=Orchestration, entity=Entity.ORCHESTRATION),
    RecordKind(record=PolicyDocument, entity=Entity.POLICY),
    RecordKind(record=Quota, entity=Entity.QUOTA),
    RecordKind(record=Account, entity=Entity.ACCOUNT),
    RecordKind(record=Statement, entity=Entity.STATEMENT),
    RecordKind(record=Agent, entity=Entity.AGENT),
    RecordKind(record=KnownSlot, entity=Entity.SLOT),
    RecordKind(record=Booking, entity=Entity.BOOKING, end="ended_us"),
    RecordKind(record=Lease, entity=Entity.LEASE, end="released_us"),
    RecordKind(record=Kernel, entity=Entity.KERNEL),
    RecordKind(record=Session, entity=Entity.SESSION, end="ended_us"),
    RecordKind(record=Finding, entity=Entity.FINDING, end="closed_us"),
    RecordKind(record=NoticeRule, entity=Entity.NOTICE_RULE),
    RecordKind(record=Alert, entity=Entity.ALERT, end="closed_us"),
    RecordKind(record=Delivery, entity=Entity.DELIVERY, end="ended_us"),
    RecordKind(record=Subscriber, entity=Entity.SUBSCRIBER),
    RecordKind(record=NoticeMark, entity=Entity.NOTICE_MARK),
)
"""Every kind, in the order in which tables are written and records are loaded: policies before what they apply to,
agents before their leases. One order everywhere keeps writers from deadlocks.

A new kind is: a line here, its type in `Record`, its name in `Entity`, a table (`aliquot.store.mapping`) and a place in
memory (`aliquot.service.state.state`). What is forgotten is named when the server starts.
"""
KIND_OF: Final[Mapping[type[Any], RecordKind]] = {kind.record: kind for kind in RECORD_KINDS}


def for_every_kind(parts: Mapping[type[Any], T], *, part: str) -> dict[type[Any], T]:
    """`parts`, one for each kind of record, in the order of `RECORD_KINDS`.

    Args:
        part: what the parts are and where to add one, for the message: `a table in aliquot.store.mapping`.
    Raises:
        TypeError: a kind has no part, or a part has no kind; the message names it and says what to do.
    """
    for kind in RECORD_KINDS:
        if kind.record not in parts:
            raise TypeError(f"the record kind {kind.record.__name__} needs {part}, and has none")
    for record in parts:
        if record not in KIND_OF:
            raise TypeError(f"{record.__name__} has {part}, and is no kind of record; add it to RECORD_KINDS")
    return {kind.record: parts[kind.record] for kind in RECORD_KINDS}


class Event(Struct, frozen=True, kw_only=True):
    """One committed change. Numbers have no gaps and follow commit order."""

    number: int
    at_us: int
    """Commit time, microseconds UTC."""
    kind: str
    """`<entity>.<what happened>`: `session.queued`, `kernel.exited`, `lease.granted`, ..."""
    entity: Entity
    entity_id: str
    entity_version: int
    actor: str
    """A user id, `system:<part>`, or `unix:<account>` for a command run on the server's machine."""
    request_id: str | None
    epoch: int
    pass_number: int | None
    record: Record
    """The full new state."""
