"""Ledger entries: what a pass decided, and what it decided on that the event log does not hold."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aliquot.core.fairshare import Balance
from aliquot.core.plan import Plan
from aliquot.core.snapshot import Request
from aliquot_schema.agents import Agent, KnownSlot
from aliquot_schema.ids import AgentId, DeviceId, LeaseId, NodeId, ProjectId, SessionId, UserId
from aliquot_schema.intervals import Intervals
from aliquot_schema.leases import Kernel, Lease
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.quotas import Quota
from aliquot_schema.reasons import Verdict
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState

LEDGER_FORMAT: Final = 1
"""Of everything in this file; raised when an entry of before could be misread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What of a snapshot is not in the event log, as far as it is other than in the entry before. In an entry with a
    checkpoint: all of it."""

    open_agents: tuple[AgentId, ...] | None = None
    """Agents that took something new; None = the same as before."""
    estimates: tuple[tuple[SessionId, int], ...] = ()
    """What was predicted of sessions, in milliseconds."""
    asked: tuple[tuple[Request, int], ...] = ()
    """How often each request was made; 0 = it is not counted any more."""
    dependencies: tuple[tuple[SessionId, SessionState | None], ...] = ()
    """Sessions that others wait for; None = not any more, or not known."""
    external: tuple[tuple[NodeId, tuple[tuple[DeviceId, int], ...]], ...] | None = None
    """Devices that processes of others were on, with the budgets that counted as held; None = the same as before."""
    order: str | None = None
    """Stood in for the policy's, which the server did not know; None = it was the policy's own."""
    placement: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictChange:
    """Sessions that wait for another reason than in the entry before."""

    places: Intervals
    """Where they stand in the queue of the snapshot, which is sorted by (queued_us, session_id)."""
    verdict: Verdict | None
    """None = they do not wait any more: they were placed, or have failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The state at an entry's revision, as far as snapshots from there on are made of it."""

    agents: tuple[Agent, ...]
    slots: tuple[KnownSlot, ...]
    policy: PolicyDocument
    quotas: tuple[Quota, ...]
    sessions: tuple[Session, ...]
    """Those that have not ended, hold devices, or are waited for. Without their environment: nothing goes by it."""
    kernels: tuple[Kernel, ...]
    """Those that have not exited."""
    leases: tuple[Lease, ...]
    """Those that are not released."""
    balances: tuple[tuple[ProjectId, UserId, Balance], ...]
    half_life_ms: int
    rates: Mapping[LeaseId, int]
    """What each open lease costs, milli of a device: as it was when it was granted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassEntry:
    """One pass. Passes that decided nothing new have no entry."""

    number: int
    """Rises from entry to entry, over restarts too."""
    now_us: int
    revision: int
    """The number of the last event in the snapshot."""
    seed: int
    epoch: int
    code_version: str
    lost: int = 0
    """Passes before this one that may have decided something, and could not be written down."""
    inputs: Inputs
    verdicts: tuple[VerdictChange, ...]
    plan: Plan
    """Without verdicts."""
    checkpoint: Checkpoint | None = None
