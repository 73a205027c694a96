"""The order in which records are taken in when a server starts."""

from typing import Final

from aliquot.service.noticed import KINDS
from aliquot_schema.accounts import ApiKey, User
from aliquot_schema.actions import Action
from aliquot_schema.agents import Agent, KnownSlot
from aliquot_schema.events import Record
from aliquot_schema.findings import Finding
from aliquot_schema.ids import SessionId
from aliquot_schema.leases import Kernel, Lease
from aliquot_schema.orchestration import Orchestration
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.quotas import Account, Quota
from aliquot_schema.secrets import SecretNames
from aliquot_schema.sessions import Session

_LOADED: Final = (
    User,
    ApiKey,
    SecretNames,
    Action,
    Orchestration,
    PolicyDocument,
    Quota,
    Account,
    Agent,
    KnownSlot,
    Lease,
    Kernel,
    Session,
    Finding,
    *KINDS,
)


def load_order(record: Record) -> tuple[int, int, str]:
    """Agents before what they hold; sessions last, those that have ended by the time of their end."""
    ended_us = record.ended_us if isinstance(record, Session) else None
    return _LOADED.index(type(record)), 0 if ended_us is None else ended_us, record.id


def end_of(session: Session) -> tuple[int, SessionId]:
    """When it ended; ids tell apart those that ended at once."""
    return session.ended_us or 0, session.id
