"""Two half shares of one device, of which one job takes more memory than is its: the watchdog must catch that one."""

from typing import Final

from aliquot.cli.selftest.finding import Finding, Outcome
from aliquot.cli.selftest.probe_jobs import ProbeFailed, ProbeJobs
from aliquot.execution.agent.memory_watch import CODE, memory_text
from aliquot.execution.devices.nvml_devices import SHARES
from aliquot_schema.devices import Device
from aliquot_schema.ids import KernelId
from aliquot_schema.launching import KernelPhase

HALF: Final = 500
"""Milli."""
MODEST_PCT: Final = 25
GREEDY_PCT: Final = 60
EXPECTED: Final = "the one that takes 60 % is flagged and stopped; the one that takes 25 % runs on"


async def half_shares(jobs: ProbeJobs, device: Device) -> Finding:
    """Try it on one device, if nobody uses it."""
    name = f"two half shares of {device.name}"
    try:
        outcome, seen = await _try(jobs, device)
    except ProbeFailed as failure:
        outcome, seen = Outcome.FAIL, str(failure)
    return Finding(name=name, expected=EXPECTED, seen=seen, outcome=outcome)


async def _try(jobs: ProbeJobs, device: Device) -> tuple[Outcome, str]:
    await jobs.measured()
    blind = "processes cannot be attributed here (another pid namespace, or an MPS server); nobody is flagged"
    if device.id not in jobs.readings:
        return Outcome.UNKNOWN, "the driver measures nothing on it"
    if jobs.readings[device.id].processes is None:
        return Outcome.UNKNOWN, blind
    if jobs.readings[device.id].processes:
        return Outcome.UNKNOWN, "others use it; try again when nobody does"
    half = {SHARES: {device.id: HALF}}
    modest = await jobs.hold(half, device.memory_bytes * MODEST_PCT // 100)
    greedy = await jobs.hold(half, device.memory_bytes * GREEDY_PCT // 100)
    await jobs.measured()
    if not (jobs.readings[device.id].processes or ()):
        return Outcome.UNKNOWN, "the driver does not tell which processes are on it"
    ended = await jobs.until(greedy, lambda report: report.phase is KernelPhase.EXITED)
    flagged = [report.message for report in jobs.reports(greedy) if report.code == CODE]
    seen = (
        f"the greedy one {_told(flagged)}, and ended by signal {ended.signal}; the modest one {_modest(jobs, modest)}"
    )
    is_fine = bool(flagged) and ended.signal is not None and _modest(jobs, modest) == "runs on"
    await jobs.stop(modest)
    return Outcome.OK if is_fine else Outcome.FAIL, f"{seen} (half is {memory_text(device.memory_bytes // 2)})"


def _told(words: list[str | None]) -> str:
    return next((text for text in words if text), "was not flagged")


def _modest(jobs: ProbeJobs, kernel: KernelId) -> str:
    told = jobs.reports(kernel)
    if any(report.code == CODE for report in told):
        return "was flagged too"
    return "runs on" if told[-1].phase is KernelPhase.STARTED else "has ended"
