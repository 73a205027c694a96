"""Findings: discrepancies between the store, the agents and the processes on devices."""

from msgspec import Struct

from aliquot_schema.enums import DescribedStr
from aliquot_schema.ids import AgentId


class Discrepancy(DescribedStr):
    """Kind of discrepancy."""

    LEASE_WITHOUT_PROCESS = (
        "lease_without_process",
        "A kernel holds devices, but its agent does not know it or reports its end.",
    )
    PROCESS_WITHOUT_LEASE = "process_without_lease", "An agent runs a kernel without a lease."
    PROCESS_AFTER_END = "process_after_end", "A kernel still runs although it was stopped or its session has ended."
    SPEC_WITHOUT_LEASE = "spec_without_lease", "An agent reserves devices for a kernel that holds none."
    SPEC_DIFFERS = "spec_differs", "The agent's allocation of a kernel differs from the grant, or is unreadable."
    DEVICE_GONE = "device_gone", "A held device disappeared."
    DEVICE_UNHEALTHY = "device_unhealthy", "A held device is unhealthy."
    DEVICE_OVERCOMMITTED = (
        "device_overcommitted",
        "More of an accelerator is held than it has: its agent reports less than when it was granted. Its holders "
        "keep it, and nothing new is placed there until enough is released.",
    )
    EXTERNAL_PROCESS = "external_process", "A process that Aliquot did not start uses a device that no lease holds."


class Finding(Struct, frozen=True, kw_only=True):
    """A confirmed discrepancy, from its confirmation to its end. Times are microseconds UTC."""

    id: str
    """`<kind>/<agent>/<subject>/<found_us>`."""
    version: int = 0
    kind: Discrepancy
    agent_id: AgentId
    subject: str
    """The kernel or the device."""
    evidence: str
    """What was observed, for operators."""
    repair: str | None = None
    """What the server did about it; None = nothing: an operator has to act, or no action is needed."""
    found_us: int
    closed_us: int | None = None
    """When it was no longer observed; None = open."""


def finding_id(kind: Discrepancy, agent_id: AgentId, subject: str, *, found_us: int) -> str:
    """Id of a finding. The same discrepancy found again later is a new finding."""
    return f"{kind}/{agent_id}/{subject}/{found_us}"
