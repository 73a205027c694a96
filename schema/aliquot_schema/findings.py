"""Findings: where what the store says, what agents have, and what runs on devices do not agree."""

from dataclasses import dataclass
from enum import StrEnum

from aliquot_schema.ids import AgentId


class Discrepancy(StrEnum):
    """What does not agree with what."""

    LEASE_WITHOUT_PROCESS = "lease_without_process"
    """A kernel holds devices, and its agent knows nothing of it, or that it has ended."""
    PROCESS_WITHOUT_LEASE = "process_without_lease"
    """An agent runs a kernel that nobody has a lease for."""
    PROCESS_AFTER_END = "process_after_end"
    """A kernel was asked to stop, or its session has ended, and it still runs."""
    SPEC_WITHOUT_LEASE = "spec_without_lease"
    """An agent keeps devices for a kernel that holds none."""
    SPEC_DIFFERS = "spec_differs"
    """What the agent gave a kernel is not what it was granted, or cannot be read."""
    DEVICE_GONE = "device_gone"
    """A device that somebody holds is not there any more."""
    DEVICE_UNHEALTHY = "device_unhealthy"
    """A device that somebody holds is broken."""
    EXTERNAL_PROCESS = "external_process"
    """A process that is none of ours uses a device that nobody holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One of them, from when it was sure until it was gone. Times are microseconds UTC."""

    id: str
    """`<kind>/<agent>/<subject>/<found_us>`."""
    version: int = 0
    kind: Discrepancy
    agent_id: AgentId
    subject: str
    """The kernel or the device."""
    evidence: str
    """What was seen, in words and numbers."""
    repair: str | None = None
    """What was done about it, in words; None = that is for a person to do, or nothing has to be."""
    found_us: int
    closed_us: int | None = None
    """When it was seen no more; None = it stands."""


def finding_id(kind: Discrepancy, agent_id: AgentId, subject: str, *, found_us: int) -> str:
    """Name a finding: the same thing found again later is another one."""
    return f"{kind}/{agent_id}/{subject}/{found_us}"
