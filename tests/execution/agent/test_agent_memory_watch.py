"""The memory watchdog: a kernel that exceeds its share of a device's memory is flagged or stopped, no other."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_stand import SHARES, TOYS, Stand, ToyPlugin, agent_config, marked, shell, until
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
            DeviceProcess(pid=pid, memory_bytes=size) for kernel, size in self.sizes.items() for pid in marked(kernel)
        ]
        return (DeviceReading(device_id=TOYS[0], processes=tuple(found) if self.can_tell else None),)


async def opened(home: Path, policy: MemoryPolicy) -> tuple[Stand, HungryPlugin]:
    stand = Stand(agent_config(home, memory_policy=policy))
    plugin = HungryPlugin()
    plugin.sizes = {}
    stand.plugin = plugin
    stand._new_core()
    await stand.open()
    return stand, plugin


def remarks(stand: Stand, kernel: KernelId) -> list[str | None]:
    started = [report for report in stand.reports(kernel) if report.phase is KernelPhase.STARTED]
    return [report.message for report in started][1:]


async def two_half_shares(stand: Stand, plugin: HungryPlugin) -> tuple[KernelId, KernelId]:
    """Two kernels with half of a device each; the second uses three quarters of its memory."""
    modest, greedy = (shell(SLEEP, spec={SHARES: {TOYS[0]: 500}}) for _ in range(2))
    await stand.core.launch([modest, greedy])
    for asked in (modest, greedy):
        await stand.told(asked.kernel_id, KernelPhase.STARTED)
    plugin.sizes = {modest.kernel_id: GIB // 4, greedy.kernel_id: GIB * 3 // 4}
    return modest.kernel_id, greedy.kernel_id


async def stop_all(stand: Stand, *kernels: KernelId) -> None:
    for kernel in kernels:
        await stand.core.stop(kernel, epoch=1, grace_ms=0)
        await stand.ended(kernel)
    await stand.close()


@pytest.mark.anyio
async def test_a_kernel_above_its_memory_share_is_flagged_until_it_frees_memory(agent_home: Path) -> None:
    stand, plugin = await opened(agent_home, MemoryPolicy.FLAG)
    modest, greedy = await two_half_shares(stand, plugin)
    await until(lambda: len(remarks(stand, greedy)) == 1)
    assert remarks(stand, greedy) == ["uses 768.0 MiB of toy-a and was granted 512.0 MiB"]
    (told,) = [report for report in (await stand.core.inventory()).kernels if report.kernel_id == greedy]
    assert (told.phase, told.code) == (KernelPhase.STARTED, "over_memory")
    plugin.sizes = {greedy: GIB // 2}
    await until(lambda: len(remarks(stand, greedy)) == 2)
    assert remarks(stand, greedy)[-1] is None
    assert remarks(stand, modest) == []
    await stop_all(stand, modest, greedy)


@pytest.mark.anyio
async def test_under_the_stop_policy_a_kernel_above_its_memory_share_is_stopped_with_a_reason(agent_home: Path) -> None:
    stand, plugin = await opened(agent_home, MemoryPolicy.STOP)
    modest, greedy = await two_half_shares(stand, plugin)
    assert (await stand.ended(greedy)).signal == 15
    assert stand.output(greedy) == "\naliquot: stopped because it uses 768.0 MiB of toy-a and was granted 512.0 MiB\n"
    assert len(marked(modest)) == 1
    await stop_all(stand, modest)


@pytest.mark.anyio
@pytest.mark.parametrize("blind", ["cannot_tell_processes", "cannot_tell_sizes", "is_off"])
async def test_memory_that_cannot_be_attributed_is_not_judged(agent_home: Path, blind: str) -> None:
    stand, plugin = await opened(agent_home, MemoryPolicy.OFF if blind == "is_off" else MemoryPolicy.STOP)
    plugin.can_tell = blind != "cannot_tell_processes"
    modest, greedy = await two_half_shares(stand, plugin)
    if blind == "cannot_tell_sizes":
        plugin.sizes = {greedy: None}
    before = len(stand.said)
    await until(lambda: len(stand.said) > before + 10)  # at least this many measurements
    assert (remarks(stand, modest), remarks(stand, greedy)) == ([], [])
    assert (len(marked(modest)), len(marked(greedy))) == (1, 1)
    await stop_all(stand, modest, greedy)
