"""Whether jobs see exactly the devices that they were given."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aliquot.cli.selftest import cuda_probe
from aliquot.cli.selftest.finding import Finding, Outcome, compared
from aliquot.cli.selftest.probe_jobs import ProbeFailed, ProbeJobs, Sight
from aliquot.execution.devices.nvml_devices import WHOLE
from aliquot_schema.agents import Capabilities
from aliquot_schema.devices import Device, DeviceAccess

LOOK_S_MAX: Final = 60.0
NOBODY: Final = "none"


def discovery(devices: Sequence[Device]) -> Finding:
    """CUDA without any restriction against NVML. Where GPUs are cut, CUDA shows a process one slice alone."""
    name = "discovery: CUDA sees what NVML reports"
    expected = _listed([_plain(device.id) for device in devices])
    try:
        seen = _unrestricted().uuids
    except ProbeFailed as failure:
        return Finding(name=name, expected=expected, seen=str(failure), outcome=Outcome.FAIL)
    if any(device.parent is not None for device in devices):
        is_fine = len(seen) > 0 and set(seen) <= {_plain(device.id) for device in devices}
        outcome = Outcome.OK if is_fine else Outcome.FAIL
        return Finding(name=name, expected=f"some of {expected}", seen=_listed(seen), outcome=outcome)
    return compared(name, expected=expected, seen=_listed(seen))


async def own_device_only(jobs: ProbeJobs, device: Device) -> Finding:
    """A job with one device."""
    name = f"a job with {device.name} sees only it"
    expected = _listed([_plain(device.id)])
    try:
        seen = await jobs.look({WHOLE: {device.id: 1}})
    except ProbeFailed as failure:
        return Finding(name=name, expected=expected, seen=str(failure), outcome=Outcome.FAIL)
    return compared(name, expected=expected, seen=_listed(seen.uuids))


async def no_device(jobs: ProbeJobs) -> Finding:
    """A job without one."""
    name = "a job without a GPU sees none"
    try:
        seen = await jobs.look({})
    except ProbeFailed as failure:
        return Finding(name=name, expected=NOBODY, seen=str(failure), outcome=Outcome.FAIL)
    return compared(name, expected=NOBODY, seen=_listed(seen.uuids))


async def device_access(jobs: ProbeJobs, capabilities: Capabilities) -> Finding:
    """What keeps a job from the files of devices that are not its own, against what the agent says of itself."""
    claim = capabilities.device_access
    name = f"device_access: {claim}"
    expected = {
        DeviceAccess.ENV: "advice: nothing keeps a job from opening other devices",
        DeviceAccess.CGROUP: "a job without a GPU can open no device file",
    }[claim]
    try:
        files = (await jobs.look({})).device_files
    except ProbeFailed as failure:
        return Finding(name=name, expected=expected, seen=str(failure), outcome=Outcome.FAIL)
    opened = ", ".join(f"/dev/nvidia{number}" for number in files)
    seen = f"a job without a GPU can open {opened}" if files else "a job without a GPU can open no device file"
    is_fine = claim is DeviceAccess.ENV or not files
    return Finding(name=name, expected=expected, seen=seen, outcome=Outcome.OK if is_fine else Outcome.FAIL)


def _unrestricted() -> Sight:
    """What CUDA shows to a process that nobody has restricted."""
    hidden = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
    environment = {name: text for name, text in os.environ.items() if name not in hidden}
    command = [sys.executable, "-I", "-S", str(Path(cuda_probe.__file__)), "look"]
    try:
        done = subprocess.run(
            command,
            env=environment | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
            capture_output=True,
            text=True,
            timeout=LOOK_S_MAX,
            check=True,
        )
    except subprocess.SubprocessError as error:
        raise ProbeFailed(f"the probe failed: {error}") from None
    return Sight.of(done.stdout)


def _plain(device_id: str) -> str:
    """An id without the kind in front, which CUDA does not tell: `GPU-`, `MIG-`."""
    return device_id.removeprefix("GPU-").removeprefix("MIG-").casefold()


def _listed(uuids: Sequence[str]) -> str:
    return json.dumps(sorted(uuids)) if uuids else NOBODY
