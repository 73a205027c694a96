"""The memory watchdog: a kernel that exceeds its share of a device's memory is flagged or stopped, no other."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_harness import SHARES, TOYS, AgentHarness, ToyPlugin, agent_config, marked_processes, shell, wait_until
from aliquot.execution.agent.gpu_memory import MemoryPolicy, MemoryUse, MemoryVerdict, MemoryWatch
from aliquot.execution.devices.plugin import DeviceUse
from aliquot_schema.cluster.launching import KernelPhase
from aliquot_schema.ids import KernelId
from aliquot_schema.resources.devices import DeviceProcess, DeviceReading

GIB = 1 << 30
A = KernelId("ses_a.1.0")
SLEEP = "exec sleep 600"


def use(used: int, *, granted: int = GIB // 2) -> MemoryUse:
    return MemoryUse(kernel_id=A, device_id=TOYS[0], used_bytes=used, granted_bytes=granted)


def test_memory_above_the_share_is_reported_once_after_two_equal_measurements() -> None:
    watch = MemoryWatch()
    over, fits = [use(GIB)], [use(GIB // 4)]
    seen = [watch.judge(each) for each in (over, fits, over, over, over, [], over, fits, fits)]
    flagged = MemoryVerdict(kernel_id=A, message="uses 1.00 GiB of toy-a and was granted 512.0 MiB")
    assert seen == [[], [], [], [flagged], [], [], [], [MemoryVerdict(kernel_id=A, message=None)], []]


def test_using_exactly_the_share_is_allowed_and_using_a_device_without_a_grant_is_not() -> None:
    watch = MemoryWatch()
    assert [watch.judge([use(GIB // 2)]) for _ in range(3)] == [[], [], []]
    watch.judge([use(1 << 20, granted=0)])
    (verdict,) = watch.judge([use(1 << 20, granted=0)])
    assert verdict.message == "uses 1.0 MiB of toy-a, which was not granted to it"


def test_the_memory_watch_forgets_kernels_that_are_gone() -> None:
    watch = MemoryWatch()
    watch.judge([use(GIB)])
    watch.forget(set())
    assert watch.judge([use(GIB)]) == []


class HungryPlugin(ToyPlugin):
    """Reports the memory of processes as a test sets it."""

    sizes: dict[KernelId, int | None] = {}  # noqa: RUF012 -- set anew by each test
    can_tell = True

    def readings(self, uses: Sequence[DeviceUse]) -> tuple[DeviceReading, ...]:
        found = [
            DeviceProcess(pid=pid, memory_bytes=size)
            for kernel, size in self.sizes.items()
            for pid in marked_processes(kernel)
        ]
        return (DeviceReading(device_id=TOYS[0], processes=tuple(found) if self.can_tell else None),)


async def opened(home: Path, policy: MemoryPolicy) -> tuple[AgentHarness, HungryPlugin]:
    harness = AgentHarness(agent_config(home, memory_policy=policy))
    plugin = HungryPlugin()
    plugin.sizes = {}
    harness.plugin = plugin
    harness._new_core()
    await harness.open()
    return harness, plugin


def remarks(harness: AgentHarness, kernel: KernelId) -> list[str | None]:
    started = [report for report in harness.reports(kernel) if report.phase is KernelPhase.STARTED]
    return [report.message for report in started][1:]


async def two_half_shares(harness: AgentHarness, plugin: HungryPlugin) -> tuple[KernelId, KernelId]:
    """Two kernels with half of a device each; the second uses three quarters of its memory."""
    modest, greedy = (shell(SLEEP, spec={SHARES: {TOYS[0]: 500}}) for _ in range(2))
    await harness.core.launch([modest, greedy])
    for asked in (modest, greedy):
        await harness.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    plugin.sizes = {modest.kernel_id: GIB // 4, greedy.kernel_id: GIB * 3 // 4}
    return modest.kernel_id, greedy.kernel_id


async def stop_all(harness: AgentHarness, *kernels: KernelId) -> None:
    for kernel in kernels:
        await harness.core.stop(kernel, epoch=1, grace_ms=0)
        await harness.wait_for_end(kernel)
    await harness.close()


@pytest.mark.anyio
async def test_a_kernel_above_its_memory_share_is_flagged_until_it_frees_memory(agent_home: Path) -> None:
    harness, plugin = await opened(agent_home, MemoryPolicy.FLAG)
    modest, greedy = await two_half_shares(harness, plugin)
    await wait_until(lambda: len(remarks(harness, greedy)) == 1)
    assert remarks(harness, greedy) == ["uses 768.0 MiB of toy-a and was granted 512.0 MiB"]
    (told,) = [report for report in (await harness.core.inventory()).kernels if report.kernel_id == greedy]
    assert (told.phase, told.code) == (KernelPhase.STARTED, "over_memory")
    plugin.sizes = {greedy: GIB // 2}
    await wait_until(lambda: len(remarks(harness, greedy)) == 2)
    assert remarks(harness, greedy)[-1] is None
    assert remarks(harness, modest) == []
    await stop_all(harness, modest, greedy)


@pytest.mark.anyio
async def test_under_the_stop_policy_a_kernel_above_its_memory_share_is_stopped_with_a_reason(agent_home: Path) -> None:
    harness, plugin = await opened(agent_home, MemoryPolicy.STOP)
    modest, greedy = await two_half_shares(harness, plugin)
    assert (await harness.wait_for_end(greedy)).signal == 15
    assert harness.output(greedy) == "\naliquot: stopped because it uses 768.0 MiB of toy-a and was granted 512.0 MiB\n"
    assert len(marked_processes(modest)) == 1
    await stop_all(harness, modest)


@pytest.mark.anyio
async def test_a_kernel_is_stopped_though_the_reason_cannot_be_written_to_its_output(agent_home: Path) -> None:
    harness, plugin = await opened(agent_home, MemoryPolicy.STOP)
    asked = shell(SLEEP, spec={SHARES: {TOYS[0]: 500}})
    await harness.core.launch([asked])
    await harness.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    (harness.folder(asked.kernel_id) / "output.log").unlink()
    plugin.sizes = {asked.kernel_id: GIB}
    assert (await harness.wait_for_end(asked.kernel_id)).signal == 15
    await harness.close()


@pytest.mark.anyio
@pytest.mark.parametrize("blind", ["cannot_tell_processes", "cannot_tell_sizes", "is_off"])
async def test_memory_that_cannot_be_attributed_is_not_judged(agent_home: Path, blind: str) -> None:
    harness, plugin = await opened(agent_home, MemoryPolicy.OFF if blind == "is_off" else MemoryPolicy.STOP)
    plugin.can_tell = blind != "cannot_tell_processes"
    modest, greedy = await two_half_shares(harness, plugin)
    if blind == "cannot_tell_sizes":
        plugin.sizes = {greedy: None}
    before = len(harness.messages)
    await wait_until(lambda: len(harness.messages) > before + 10)  # at least this many measurements
    assert (remarks(harness, modest), remarks(harness, greedy)) == ([], [])
    assert (len(marked_processes(modest)), len(marked_processes(greedy))) == (1, 1)
    await stop_all(harness, modest, greedy)
