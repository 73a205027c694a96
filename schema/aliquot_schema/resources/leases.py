"""Leases and kernels: the right to parts of devices, and the processes that use them."""

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from aliquot_schema.enums import DescribedStr
from aliquot_schema.ids import AgentId, KernelId, LeaseId, SessionId, UserId
from aliquot_schema.resources.devices import ResourceSpec
from aliquot_schema.states import KernelState


class LeaseKind(DescribedStr):
    """Kind of lease; each ends by its own rule."""

    SESSION = "session", "Held by a session's kernel until its processes are proven gone."
    MANUAL = "manual", "External allocation: held by a user until a time the user can extend; without a kernel."
    RESERVATION = "reservation", "Held by a booking for a fixed period."


class EndEvidence(StrEnum):
    """Evidence that a kernel's processes are gone."""

    NEVER_SENT = "never_sent"
    """The grant was revoked before anything was sent to the agent."""
    TOMBSTONE = "tombstone"
    """The stop created the claim file first, so no start can succeed."""
    REFUSED = "refused"
    """The agent rejected the launch before it created the claim file; or the preflight failed, all its processes are
    gone, and the command was not started."""
    EXIT_FILE = "exit_file"
    """The shim wrote exit.json after the whole process tree was gone."""
    LOCK_AND_GROUP = "lock_and_group"
    """The shim's lock is free, and no process has the kernel's process group or environment mark."""
    BOOT_ID = "boot_id"
    """The node was rebooted since."""
    GIVEN_BACK = "given_back"
    """A lease without a kernel was released by its holder."""
    EXPIRED = "expired"
    """A lease without a kernel expired."""
    OPERATOR = "operator"
    """An operator confirmed it."""


class Lease(Struct, frozen=True, kw_only=True):
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
    idle: int = 0
    """Device time in which its devices were measured without use, in thousandths of a device x milliseconds; counted at
    the release, while the policy has prices."""
    policy_version: int = 0
    """Version of the policy by whose prices it was billed at its release; 0 = it was not billed."""


class HostUse(Struct, frozen=True, kw_only=True):
    """CPU time and host memory that a kernel's processes have used; None = not measured."""

    cpu_ms: int
    """CPU time since the start, with that of processes that have ended."""
    cpu_milli: int | None = None
    """Thousandths of a CPU, over the last interval between two readings."""
    cpu_milli_max: int | None = None
    """The most of any interval."""
    memory_bytes: int | None = None
    """Memory that the kernel cannot reclaim, in a cgroup; else the resident memory of all processes together."""
    memory_bytes_max: int | None = None
    """The most of any reading."""

    def with_peaks(self, earlier: "HostUse | None") -> "HostUse":
        """With the peaks of earlier readings: an agent that restarts forgets them."""
        if earlier is None:
            return self
        return replace(
            self,
            cpu_ms=max(self.cpu_ms, earlier.cpu_ms),
            cpu_milli_max=larger(self.cpu_milli_max, earlier.cpu_milli_max),
            memory_bytes_max=larger(self.memory_bytes_max, earlier.memory_bytes_max),
        )


def larger(one: int | None, other: int | None) -> int | None:
    """The larger of two numbers, of which either may be unknown."""
    return max((number for number in (one, other) if number is not None), default=None)


class Kernel(Struct, frozen=True, kw_only=True):
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
    """Whether the wall-time limit ended it."""
    message: str | None = None
    """Why it could not be started."""
    rendezvous_port: int | None = None
    """Rank 0 only: the rendezvous port on its agent's address, reserved while any rank of the attempt lives."""
    host_use: HostUse | None = None
    """The last measurement before its end; None = it has not ended, or none was taken."""
    takes_limit: bool | None = None
    """Whether its time limit can be changed while it runs; None = it has not been reported."""
    checked_us: int | None = None
    """When its preflight was reported as passed; None = it has none, or it has not passed."""

    @property
    def has_passed(self) -> bool:
        """Whether its preflight lets the other ranks start; an agent of an earlier release starts without one."""
        return self.checked_us is not None or self.state is KernelState.RUNNING
