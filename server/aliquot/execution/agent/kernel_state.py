"""Kernel state: derives a kernel's status from its folder, and writes exit files in place of a killed shim.

This is the only module that decides whether a kernel is alive.
"""

import signal
import time
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from aliquot.execution.agent.agent_folder import KernelFolder
from aliquot.execution.agent.json_files import FORMAT, read_file
from aliquot.execution.agent.spawner.records import is_locked
from aliquot_schema.cluster.launching import KernelPhase, KernelReport
from aliquot_schema.resources.leases import EndEvidence

STOPPED_BY_HOST: Final = "it was stopped on its host without a request to the agent; was the host shut down?"
"""With a message, a signal does not count as the job's own: the session is retried like a lost one."""


class KernelStatus(StrEnum):
    """State of a kernel as its folder shows it."""

    ORDERED = "ordered"
    """Not claimed and not locked: it can be started or closed."""
    STARTING = "starting"
    """A shim holds the lock and will claim the kernel or withdraw."""
    CLOSED = "closed"
    """Claimed by a stop or a refusal: it never starts."""
    ALIVE = "alive"
    """Claimed by a shim that holds the lock."""
    EXITED = "exited"
    """The exit file is written and the lock is free."""
    DEAD = "dead"
    """The shim is gone without an exit file; processes of the job may still exist."""
    REBOOTED = "rebooted"
    """Ordered before the last boot of the host, without an exit file."""


class KernelObservation(Struct, frozen=True, kw_only=True):
    """Result of one observation."""

    status: KernelStatus
    claim: dict[str, Any] | None = None
    exit: dict[str, Any] | None = None
    has_pid: bool = False
    """The job's process was forked; it may have started."""
    has_passed: bool = False
    """Its preflight has passed."""
    takes_limit: bool = False
    """Its shim takes another time limit while it runs; those of earlier releases do not."""


def observe(folder: KernelFolder, *, boot_id: str, ordered_boot_id: str | None) -> KernelObservation:
    """Determine the status of a kernel.

    The order of the three reads matters. A shim locks, then claims, and writes the exit file before it unlocks. So
    after a shim's claim was seen, a free lock means that the shim is gone, and a missing exit file stays missing.

    Raises:
        ValueError: a file is malformed.
    """
    claim = read_file(folder.claim)
    held = is_locked(str(folder.lock))
    found = read_file(folder.exit)
    if found is not None and not held:
        return KernelObservation(status=KernelStatus.EXITED, claim=claim, exit=found)
    if claim is not None and claim["by"] != "shim":
        return KernelObservation(status=KernelStatus.CLOSED, claim=claim)
    if ordered_boot_id is not None and ordered_boot_id != boot_id:
        return KernelObservation(status=KernelStatus.REBOOTED, claim=claim)
    if claim is None:
        return KernelObservation(status=KernelStatus.STARTING if held else KernelStatus.ORDERED)
    status = KernelStatus.ALIVE if held else KernelStatus.DEAD
    began = read_file(folder.pid)
    takes_limit = began is not None and bool(began.get("takes_limit"))
    return KernelObservation(
        status=status,
        claim=claim,
        has_pid=began is not None,
        has_passed=folder.preflight.exists(),
        takes_limit=takes_limit,
    )


def exit_report(folder: KernelFolder, found: dict[str, Any]) -> KernelReport:
    """The report for an exit file."""
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
    """The report for a claim by a stop or by the agent."""
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
    """Whether the shim got a stop signal without a request file, as from a host that shuts down."""
    unasked = bool(found.get("stop_asked")) and not folder.request.exists()
    return unasked and found["signal"] is not None and found["message"] is None


def lost_shim_exit(folder: KernelFolder, at_us: int) -> dict[str, Any]:
    """Exit record of a kernel whose shim was killed and whose processes are gone. The job's own exit is unknown."""
    began = read_file(folder.pid)
    now_ms = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    return _exit(
        folder,
        at_us=at_us,
        evidence=EndEvidence.LOCK_AND_GROUP,
        signal=int(signal.SIGKILL),
        ran_ms=0 if began is None else max(0, now_ms - began["began_ms"]),
        message="its shim was killed; remaining processes of the job were killed too",
    )


def rebooted_exit(folder: KernelFolder, at_us: int, message: str) -> dict[str, Any]:
    """Exit record of a kernel that ran when the host went down. Its run time is unknown."""
    return _exit(folder, at_us=at_us, evidence=EndEvidence.BOOT_ID, signal=None, ran_ms=None, message=message)


def _exit(
    folder: KernelFolder, *, at_us: int, evidence: EndEvidence, signal: int | None, ran_ms: int | None, message: str
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "kernel_id": folder.kernel_id,
        "evidence": evidence,
        "exit_code": None,
        "signal": signal,
        "timed_out": False,
        "ran_ms": ran_ms,
        "at_us": at_us,
        "message": message,
    }
