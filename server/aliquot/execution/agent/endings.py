"""Exit files that the agent writes in the place of a shim that cannot."""

import signal
import time
from typing import Any

from aliquot.execution.agent.json_files import FORMAT, read_file
from aliquot.execution.agent.kernel_folder import KernelFolder
from aliquot_schema.leases import EndEvidence


def lost_shim_exit(folder: KernelFolder, at_us: int) -> dict[str, Any]:
    """For a shim that was killed, when nothing is left of its kernel. How the job itself ended is not known."""
    began = read_file(folder.pid)
    now_ms = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    return _exit(
        folder,
        at_us=at_us,
        evidence=EndEvidence.LOCK_AND_GROUP,
        signal=int(signal.SIGKILL),
        ran_ms=0 if began is None else max(0, now_ms - began["began_ms"]),
        message="its shim was killed; what was left of the job was ended",
    )


def rebooted_exit(folder: KernelFolder, at_us: int, message: str) -> dict[str, Any]:
    """For a kernel that ran when the host went down. How long it ran is not known."""
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
