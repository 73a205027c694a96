"""GPU checks: discovery, the devices visible to jobs, and the memory limit of shares, each with one finding."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct

from aliquot.cli.selftest.probe_jobs import ProbeFailed, ProbeJobs, ProbeReading
from aliquot.execution.agent.gpu_memory import CODE, memory_text
from aliquot.execution.devices import cuda_probe
from aliquot.execution.devices.nvml_devices import SHARES, WHOLE
from aliquot_schema.cluster.agents import Capabilities
from aliquot_schema.cluster.launching import KernelPhase
from aliquot_schema.ids import KernelId
from aliquot_schema.resources.devices import Device, DeviceAccess

OK_CODE = 0
FAILED_CODE = 1
NO_GPU_CODE = 2


class Outcome(StrEnum):
    """The result of a check."""

    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"
    """It could not be checked here; `seen` names the reason."""


class Finding(Struct, frozen=True, kw_only=True):
    """A check, with what was expected and what was found."""

    name: str
    expected: str
    seen: str
    outcome: Outcome


def compared(name: str, *, expected: str, seen: str) -> Finding:
    """A finding that is ok when both texts are equal."""
    outcome = Outcome.OK if expected == seen else Outcome.FAIL
    return Finding(name=name, expected=expected, seen=seen, outcome=outcome)


def exit_code(findings: Sequence[Finding]) -> int:
    """0 when no check failed, 1 when one failed, 2 when there was nothing to check."""
    if not findings:
        return NO_GPU_CODE
    return FAILED_CODE if any(finding.outcome is Outcome.FAIL for finding in findings) else OK_CODE


HALF: Final = 500
"""Milli."""
MODEST_PCT: Final = 25
GREEDY_PCT: Final = 60
EXPECTED: Final = "the job with 60 % of the memory is flagged and stopped; the job with 25 % keeps running"


async def half_shares(jobs: ProbeJobs, device: Device) -> Finding:
    """Two half shares of one device: the memory watchdog must stop the job that exceeds its half."""
    name = f"two half shares of {device.name}"
    try:
        outcome, seen = await _try(jobs, device)
    except ProbeFailed as failure:
        outcome, seen = Outcome.FAIL, str(failure)
    return Finding(name=name, expected=EXPECTED, seen=seen, outcome=outcome)


async def _try(jobs: ProbeJobs, device: Device) -> tuple[Outcome, str]:
    await jobs.measured()
    blind = "processes cannot be attributed here (another pid namespace, or an MPS server), so none is flagged"
    if device.id not in jobs.readings:
        return Outcome.UNKNOWN, "the driver reports no readings for it"
    if jobs.readings[device.id].processes is None:
        return Outcome.UNKNOWN, blind
    if jobs.readings[device.id].processes:
        return Outcome.UNKNOWN, "it is in use by other processes; try again when it is idle"
    half = {SHARES: {device.id: HALF}}
    modest = await jobs.hold(half, device.memory_bytes * MODEST_PCT // 100)
    greedy = await jobs.hold(half, device.memory_bytes * GREEDY_PCT // 100)
    await jobs.measured()
    if not (jobs.readings[device.id].processes or ()):
        return Outcome.UNKNOWN, "the driver does not report its processes"
    ended = await jobs.until(greedy, lambda report: report.phase is KernelPhase.EXITED)
    flagged = [report.message for report in jobs.reports(greedy) if report.code == CODE]
    seen = (
        f"the job with 60 % {_flag_text(flagged)}, and ended by signal {ended.signal}; "
        f"the job with 25 % {_modest_state(jobs, modest)}"
    )
    is_fine = bool(flagged) and ended.signal is not None and _modest_state(jobs, modest) == "keeps running"
    await jobs.stop(modest)
    return Outcome.OK if is_fine else Outcome.FAIL, f"{seen} (half is {memory_text(device.memory_bytes // 2)})"


def _flag_text(messages: list[str | None]) -> str:
    return next((text for text in messages if text), "was not flagged")


def _modest_state(jobs: ProbeJobs, kernel: KernelId) -> str:
    reports = jobs.reports(kernel)
    if any(report.code == CODE for report in reports):
        return "was flagged too"
    return "keeps running" if reports[-1].phase is KernelPhase.STARTED else "has ended"


PROBE_S_MAX: Final = 60.0
NO_DEVICES: Final = "none"


def discovery(devices: Sequence[Device]) -> Finding:
    """Compare CUDA, without restrictions, with NVML. On partitioned GPUs, CUDA shows a process only one slice."""
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
    """A job with one device must see only it."""
    name = f"a job with {device.name} sees only it"
    expected = _listed([_plain(device.id)])
    try:
        seen = await jobs.inspect({WHOLE: {device.id: 1}})
    except ProbeFailed as failure:
        return Finding(name=name, expected=expected, seen=str(failure), outcome=Outcome.FAIL)
    return compared(name, expected=expected, seen=_listed(seen.uuids))


async def no_device(jobs: ProbeJobs) -> Finding:
    """A job without a device must see none."""
    name = "a job without a GPU sees none"
    try:
        seen = await jobs.inspect({})
    except ProbeFailed as failure:
        return Finding(name=name, expected=NO_DEVICES, seen=str(failure), outcome=Outcome.FAIL)
    return compared(name, expected=NO_DEVICES, seen=_listed(seen.uuids))


async def device_access(jobs: ProbeJobs, capabilities: Capabilities) -> Finding:
    """Compare the device files that a job can open with the isolation that the agent claims."""
    claim = capabilities.device_access
    name = f"device_access: {claim}"
    expected = {
        DeviceAccess.ENV: "by variables only: a job may open other devices",
        DeviceAccess.CGROUP: "a job without a GPU can open no device file",
    }[claim]
    try:
        files = (await jobs.inspect({})).device_files
    except ProbeFailed as failure:
        return Finding(name=name, expected=expected, seen=str(failure), outcome=Outcome.FAIL)
    opened = ", ".join(f"/dev/nvidia{number}" for number in files)
    seen = f"a job without a GPU can open {opened}" if files else "a job without a GPU can open no device file"
    is_fine = claim is DeviceAccess.ENV or not files
    return Finding(name=name, expected=expected, seen=seen, outcome=Outcome.OK if is_fine else Outcome.FAIL)


def _unrestricted() -> ProbeReading:
    """What CUDA shows to a process without restrictions."""
    hidden = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
    environment = {name: text for name, text in os.environ.items() if name not in hidden}
    command = [sys.executable, "-I", "-S", str(Path(cuda_probe.__file__)), "look"]
    try:
        done = subprocess.run(
            command,
            env=environment | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
            capture_output=True,
            text=True,
            timeout=PROBE_S_MAX,
            check=True,
        )
    except subprocess.SubprocessError as error:
        raise ProbeFailed(f"the probe failed: {error}") from None
    return ProbeReading.of(done.stdout)


def _plain(device_id: str) -> str:
    """A device id without its prefix `GPU-` or `MIG-`, which CUDA does not report."""
    return device_id.removeprefix("GPU-").removeprefix("MIG-").casefold()


def _listed(uuids: Sequence[str]) -> str:
    return json.dumps(sorted(uuids)) if uuids else NO_DEVICES
