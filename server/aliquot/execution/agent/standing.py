"""What a kernel's folder says of it. The one place that tells alive from dead."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from aliquot.execution.agent.json_files import read_file
from aliquot.execution.agent.kernel_folder import KernelFolder
from aliquot.execution.agent.spawner import ofd_lock
from aliquot_schema.launching import KernelPhase, KernelReport
from aliquot_schema.leases import EndEvidence

STOPPED_BY_HOST: Final = "it was stopped on its host, which was shut down perhaps; nobody had asked the agent for that"
"""With these words the signal that ended it is not its own: it is tried again like one that was lost."""


class Standing(StrEnum):
    """Where a kernel stands on disk."""

    ORDERED = "ordered"
    """No shim has claimed it; starting it is safe, and so is a tombstone."""
    STARTING = "starting"
    """A shim has the lock, and will claim it or withdraw."""
    CLOSED = "closed"
    """A stop or a refusal has the claim: it never starts."""
    ALIVE = "alive"
    """Its shim has claimed it and holds the lock."""
    EXITED = "exited"
    DEAD = "dead"
    """Its shim is gone without an exit file; its processes may not be."""
    REBOOTED = "rebooted"
    """It was ordered before the host was booted, and has no exit file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What one look found."""

    standing: Standing
    claim: dict[str, Any] | None = None
    exit: dict[str, Any] | None = None
    has_pid: bool = False
    """The job's process was made; it may have begun."""


def look(folder: KernelFolder, *, boot_id: str, ordered_boot_id: str | None) -> Sight:
    """Find out where a kernel stands.

    The order of the three questions matters. A shim takes the lock, then claims, and writes the exit file before it
    lets go: after a shim's claim was seen, a free lock means that it is gone, and then a missing exit file stays
    missing.

    Raises:
        ValueError: a file cannot be understood.
    """
    claim = read_file(folder.claim)
    held = ofd_lock.is_held(str(folder.lock))
    found = read_file(folder.exit)
    if found is not None and not held:
        return Sight(standing=Standing.EXITED, claim=claim, exit=found)
    if claim is not None and claim["by"] != "shim":
        return Sight(standing=Standing.CLOSED, claim=claim)
    if ordered_boot_id is not None and ordered_boot_id != boot_id:
        return Sight(standing=Standing.REBOOTED, claim=claim)
    if claim is None:
        return Sight(standing=Standing.STARTING if held else Standing.ORDERED)
    standing = Standing.ALIVE if held else Standing.DEAD
    return Sight(standing=standing, claim=claim, has_pid=folder.pid.exists())


def exit_report(folder: KernelFolder, found: dict[str, Any]) -> KernelReport:
    """What an exit file says, as a report."""
    return KernelReport(
        kernel_id=folder.kernel_id,
        phase=KernelPhase.EXITED,
        at_us=found["at_us"],
        exit_code=found["exit_code"],
        signal=found["signal"],
        timed_out=found["timed_out"],
        ran_ms=found["ran_ms"],
        evidence=EndEvidence(found["evidence"]),
        message=STOPPED_BY_HOST if _stopped_by_host(folder, found) else found["message"],
    )


def closed_report(folder: KernelFolder, claim: dict[str, Any], *, at_us: int) -> KernelReport:
    """What a claim that no shim made says, as a report."""
    by_stop = claim["by"] == "stop"
    return KernelReport(
        kernel_id=folder.kernel_id,
        phase=KernelPhase.REFUSED,
        at_us=at_us,
        evidence=EndEvidence.TOMBSTONE if by_stop else EndEvidence.REFUSED,
        code=None if by_stop else claim["code"],
        message="stopped before it was started" if by_stop else claim["message"],
    )


def _stopped_by_host(folder: KernelFolder, found: dict[str, Any]) -> bool:
    """Whether its shim was told to stop by somebody who wrote no request: a host does so to all when it goes down."""
    unasked = bool(found.get("stop_asked")) and not folder.request.exists()
    return unasked and found["signal"] is not None and found["message"] is None
