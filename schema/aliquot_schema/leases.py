"""Kernels and leases: who holds which part of which device, and by what right."""

from dataclasses import dataclass
from enum import StrEnum

from aliquot_schema.devices import ResourceSpec
from aliquot_schema.ids import AgentId, KernelId, LeaseId, SessionId, UserId
from aliquot_schema.states import KernelState


class LeaseKind(StrEnum):
    """By what right devices are held; each kind has its own rule of liveness."""

    SESSION = "session"
    """Lives until there is evidence that the kernel's processes are gone."""
    MANUAL = "manual"
    """A person holds it for work that is run outside, until a time that he can move; no kernel has it."""
    RESERVATION = "reservation"
    """A booking holds it from a time until a time."""


class EndEvidence(StrEnum):
    """What showed that a kernel's processes are gone."""

    NEVER_SENT = "never_sent"
    """The grant was taken back before anything was sent to the agent."""
    TOMBSTONE = "tombstone"
    """The stop was first to make the claim file: no start can win any more."""
    REFUSED = "refused"
    """The agent refused the launch before it made a claim."""
    EXIT_FILE = "exit_file"
    """The shim wrote exit.json after the whole tree was gone."""
    LOCK_AND_GROUP = "lock_and_group"
    """The shim's lock is free and nothing is left of the kernel's process group or environment mark."""
    BOOT_ID = "boot_id"
    """The node was booted since."""
    GIVEN_BACK = "given_back"
    """No kernel had it; whoever held it gave it back."""
    EXPIRED = "expired"
    """No kernel had it; its time was over."""
    OPERATOR = "operator"
    """A person said so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to a resource spec on one agent. Times are microseconds UTC."""

    id: LeaseId
    version: int
    kind: LeaseKind
    owner: UserId
    session_id: SessionId | None = None
    kernel_id: KernelId | None = None
    agent_id: AgentId
    spec: ResourceSpec
    epoch: int
    granted_us: int
    until_us: int | None = None
    released_us: int | None = None
    evidence: EndEvidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One rank of one attempt. Times are microseconds UTC."""

    id: KernelId
    version: int
    session_id: SessionId
    attempt: int
    rank: int
    agent_id: AgentId
    state: KernelState = KernelState.GRANTED
    epoch: int
    granted_us: int
    started_us: int | None = None
    ended_us: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    """The wall-time limit ended it."""
    message: str | None = None
    """Why it could not be started, in words."""
    rendezvous_port: int | None = None
    """Of rank 0: where the ranks of the attempt meet, on its agent's address; nobody else has it while one of them
    lives."""
