"""Events of records, as a store would make them."""

from typing import Any

from aliquot_schema.alerts import Alert, Delivery, NoticeMark, NoticeRule, Subscriber
from aliquot_schema.cluster.agents import Agent, KnownSlot
from aliquot_schema.cluster.findings import Finding
from aliquot_schema.events import Entity, Event, Record
from aliquot_schema.identity.accounts import ApiKey, User
from aliquot_schema.identity.secrets import SecretNames
from aliquot_schema.orchestration import Action, Orchestration
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.quotas import Account, Quota
from aliquot_schema.resources.leases import Kernel, Lease
from aliquot_schema.sessions import Session

ENTITIES: dict[type, Entity] = {
    Session: Entity.SESSION,
    Kernel: Entity.KERNEL,
    Lease: Entity.LEASE,
    Agent: Entity.AGENT,
    KnownSlot: Entity.SLOT,
    PolicyDocument: Entity.POLICY,
    Quota: Entity.QUOTA,
    Account: Entity.ACCOUNT,
    Finding: Entity.FINDING,
    Orchestration: Entity.ORCHESTRATION,
    User: Entity.USER,
    ApiKey: Entity.KEY,
    NoticeRule: Entity.NOTICE_RULE,
    Alert: Entity.ALERT,
    Delivery: Entity.DELIVERY,
    Subscriber: Entity.SUBSCRIBER,
    NoticeMark: Entity.NOTICE_MARK,
    SecretNames: Entity.SECRETS,
    Action: Entity.ACTION,
}


def event_of(record: Record, kind: str, **more: Any) -> Event:
    """What happened to a record; `more`: fields that are not as usual."""
    usual = {"number": 1, "at_us": 1, "actor": "ann", "request_id": None, "epoch": 1, "pass_number": None}
    named = {"entity": ENTITIES[type(record)], "entity_id": record.id, "entity_version": record.version}
    return Event(kind=kind, record=record, **(usual | named | more))
