"""The course of the test: everything in order, on every GPU of this machine."""

import tempfile
from pathlib import Path

from aliquot.cli.selftest.finding import Finding, compared
from aliquot.cli.selftest.probe_jobs import ProbeJobs, probe_jobs
from aliquot.cli.selftest.sharing import half_shares
from aliquot.cli.selftest.visibility import device_access, discovery, no_device, own_device_only
from aliquot.execution.devices.device_set import DeviceSet
from aliquot.execution.devices.nvml import NvmlPlugin
from aliquot_schema.devices import Device, DeviceHealth


async def run_selftest() -> tuple[list[Finding], str]:
    """Try everything.

    Returns:
        The findings, none when there is no GPU; and a line on what was found.
    """
    plugin = NvmlPlugin()
    devices = plugin.discover()
    words = plugin.diagnosis or ", ".join(f"{device.name}: {device.model}, {device.id}" for device in devices)
    plugin.close()
    if not devices:
        return [], words
    findings = [*map(_health, devices), discovery(devices)]
    with tempfile.TemporaryDirectory(prefix="aliquot-selftest-") as folder:
        async with probe_jobs(Path(folder) / "agent", devices=DeviceSet([NvmlPlugin()])) as jobs:
            return findings + await _by_jobs(jobs, devices), words


async def _by_jobs(jobs: ProbeJobs, devices: tuple[Device, ...]) -> list[Finding]:
    healthy = [device for device in devices if device.health is DeviceHealth.HEALTHY]
    capabilities = (await jobs.core.inventory()).agent.capabilities
    findings = [await own_device_only(jobs, device) for device in healthy]
    findings += [await no_device(jobs), await device_access(jobs, capabilities)]
    return findings + [await half_shares(jobs, device) for device in healthy]


def _health(device: Device) -> Finding:
    return compared(f"{device.name} is healthy", expected=str(DeviceHealth.HEALTHY), seen=str(device.health))
