"""Events: what happened, in the one order in which it was committed."""

from dataclasses import dataclass
from enum import StrEnum

from aliquot_schema.accounts import ApiKey, User
from aliquot_schema.actions import Action
from aliquot_schema.agents import Agent, KnownSlot
from aliquot_schema.findings import Finding
from aliquot_schema.leases import Kernel, Lease
from aliquot_schema.notices import Alert, Delivery, NoticeMark, NoticeRule, Subscriber
from aliquot_schema.orchestration import Orchestration
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.quotas import Account, Quota
from aliquot_schema.secrets import SecretNames
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
)
"""Everything the store holds a row of, and events carry the full new state of."""

EVENT_FORMAT = 1


class Entity(StrEnum):
    """What an event is about."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One committed change. Numbers have no gaps, and number order is commit order."""

    number: int
    at_us: int
    """When it was written, microseconds UTC."""
    kind: str
    """`session.queued`, `kernel.exited`, `lease.granted`, ...: the entity and what happened to it."""
    entity: Entity
    entity_id: str
    entity_version: int
    actor: str
    """A user id, `system:<part>`, or `unix:<account>`: who used a command on the server's machine."""
    request_id: str | None
    epoch: int
    pass_number: int | None
    record: Record
    """The entity's full new state."""
