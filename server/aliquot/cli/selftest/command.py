"""`aliquot selftest --real`: runs all GPU checks in order, on every GPU of this machine."""

import asyncio
import json
import logging
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec import to_builtins

from aliquot.cli.selftest.gpu_checks import (
    Finding,
    compared,
    device_access,
    discovery,
    half_shares,
    no_device,
    own_device_only,
)
from aliquot.cli.selftest.probe_jobs import ProbeJobs, probe_jobs
from aliquot.execution.devices.device_set import DeviceSet
from aliquot.execution.devices.nvml import NvmlPlugin
from aliquot_schema.resources.devices import Device, DeviceHealth

if TYPE_CHECKING:
    from aliquot.cli.selftest.gpu_checks import Finding


COLOURS: Final = {"ok": "green", "unknown": "yellow", "fail": "red"}


def selftest(
    real: Annotated[bool, typer.Option("--real", help="Use this machine's GPUs, and allocate memory on them.")] = False,
    device: Annotated[
        str | None, typer.Option(metavar="DEVICE", help="Check only this GPU, by its id or its name, like cuda0.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object instead of a table.")] = False,
) -> None:
    """Check isolation and memory limits on the GPUs of this machine, and print what was expected and what was found.

    Jobs must see only their own device, and of two half shares the one with too much memory must be stopped. GPUs in
    use are not shared. The exit code is 0, 1 when something is not as expected, and 2 when there is no GPU.
    """
    from aliquot.cli.selftest.gpu_checks import NO_GPU_CODE, exit_code
    from aliquot_schema.errors import AliquotError

    if not real:
        print("aliquot selftest needs --real, as it allocates memory on this machine's GPUs", file=sys.stderr)
        print("without a GPU, `aliquot once` checks everything else", file=sys.stderr)
        raise typer.Exit(NO_GPU_CODE)
    logging.basicConfig(level=logging.ERROR)
    try:
        findings, words = asyncio.run(run_selftest(device))
    except AliquotError as error:
        print(f"aliquot selftest: {error.message}", file=sys.stderr)
        raise typer.Exit(1) from None
    if as_json:
        print(json.dumps({"found": words, "findings": [to_builtins(finding) for finding in findings]}, indent=2))
    else:
        _print(findings, words)
    raise typer.Exit(exit_code(findings))


def _print(findings: "list[Finding]", words: str) -> None:
    from rich.console import Console
    from rich.table import Table

    if not findings:
        print(f"no NVIDIA GPU to check: {words}")
        return
    print(words)
    table = Table("check", "expected", "found", "result")
    for finding in findings:
        table.add_row(finding.name, finding.expected, finding.seen, f"[{COLOURS[finding.outcome]}]{finding.outcome}[/]")
    Console().print(table)


async def run_selftest(only: str | None = None) -> tuple[list[Finding], str]:
    """Run all checks.

    Args:
        only: id or name of the GPU to check; None = all.
    Returns:
        The findings, none without a GPU; and the GPUs found, or why there are none, in one line.
    """
    plugin = NvmlPlugin()
    devices = plugin.discover()
    words = plugin.diagnosis or ", ".join(f"{device.name}: {device.model}, {device.id}" for device in devices)
    plugin.close()
    chosen = tuple(device for device in devices if only in (None, device.id, device.name))
    if not chosen:
        return [], f"no GPU is called {only}: {words}" if devices else words
    findings = [*map(_health, chosen), *([discovery(devices)] if only is None else [])]
    with tempfile.TemporaryDirectory(prefix="aliquot-selftest-") as folder:
        async with probe_jobs(Path(folder) / "agent", devices=DeviceSet([NvmlPlugin()])) as jobs:
            return findings + await _by_jobs(jobs, chosen), words


async def _by_jobs(jobs: ProbeJobs, devices: tuple[Device, ...]) -> list[Finding]:
    healthy = [device for device in devices if device.health is DeviceHealth.HEALTHY]
    capabilities = (await jobs.core.inventory()).agent.capabilities
    findings = [await own_device_only(jobs, device) for device in healthy]
    findings += [await no_device(jobs), await device_access(jobs, capabilities)]
    return findings + [await half_shares(jobs, device) for device in healthy]


def _health(device: Device) -> Finding:
    return compared(f"{device.name} is healthy", expected=str(DeviceHealth.HEALTHY), seen=str(device.health))
