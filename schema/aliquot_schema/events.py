"""Events: the log of committed changes, in commit order."""

from dataclasses import dataclass
from enum import StrEnum

from aliquot_schema.alerts import Alert, Delivery, NoticeMark, NoticeRule, Subscriber
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
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
