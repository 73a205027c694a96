"""Preflight: the check that a kernel runs before its command, its result, and the release of kernels that have passed.

The shim runs the check, see `spawner.preflight`. The agent's own check is the CUDA probe; its text is on the command
line, because a job's account may not be able to read the installed file.
"""

import inspect
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aliquot.execution.agent.agent_folder import KernelFolder
from aliquot.execution.agent.json_files import FORMAT, replace_file
from aliquot.execution.agent.kernel_state import KernelObservation, KernelStatus, observe
from aliquot.execution.agent.kernels import KernelHandle
from aliquot.execution.agent.shim_client import wake
from aliquot.execution.devices import cuda_probe
from aliquot_schema.cluster.launching import KernelPhase, KernelReport
from aliquot_schema.ids import KernelId
from aliquot_schema.resources.leases import EndEvidence
from aliquot_schema.sessions import PREFLIGHT_FAILED

OUTPUT_BYTES_MAX: Final = 600
"""Of the end of a failed check's output, in the report."""
_PROBE: Final = inspect.getsource(cuda_probe)
_OWN: Final = """
for python in "$1" python3; do
    if command -v "$python" >/dev/null; then exec "$python" -I -S -c "$2" bandwidth; fi
done
echo "aliquot: preflight: there is no Python here, so nothing was checked"
"""


OWN_CHECK: Final = ("/bin/sh", "-c", _OWN, "aliquot-preflight", sys.executable, _PROBE)
"""The command line of the agent's own check."""


def release(kernel: KernelHandle, *, boot_id: str) -> None:
    """Let the command of a kernel start as soon as its check has passed. Without effect on one that has started, or
    that has no shim yet."""
    observation = observe(kernel.folder, boot_id=boot_id, ordered_boot_id=kernel.ordered_boot_id)
    if observation.status is KernelStatus.ALIVE and observation.claim is not None and not observation.has_pid:
        replace_file(kernel.folder.go, {"format": FORMAT})
        wake(observation.claim)


def check_report(seen: KernelObservation, kernel_id: KernelId, *, at_us: int) -> KernelReport:
    """The report on a kernel whose check runs, or has passed."""
    phase = KernelPhase.CHECKED if seen.has_passed else KernelPhase.CHECKING
    return KernelReport(kernel_id=kernel_id, phase=phase, at_us=at_us)


def has_failed(found: Mapping[str, Any]) -> bool:
    """Whether an exit record is that of a failed check, so that the command was not started."""
    return bool(found.get("preflight_failed"))


def failed_report(folder: KernelFolder, found: Mapping[str, Any]) -> KernelReport:
    """The report on a check that has failed, with the end of its output."""
    output = _end_of(folder.output)
    return KernelReport(
        kernel_id=folder.kernel_id,
        phase=KernelPhase.REFUSED,
        at_us=found["at_us"],
        evidence=EndEvidence.REFUSED,
        code=PREFLIGHT_FAILED,
        message=f"{found['message']}; its output ends with: {output}" if output else f"{found['message']}, no output",
    )


def _end_of(path: Path) -> str:
    """The end of an output, on one line; empty if there is none, or it cannot be read."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as output:
            output.seek(max(output.seek(0, os.SEEK_END) - OUTPUT_BYTES_MAX, 0))
            text = output.read().decode(errors="replace")
    except OSError:
        return ""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return "".join(c if c.isprintable() else "?" for c in " / ".join(line for line in lines if line))
