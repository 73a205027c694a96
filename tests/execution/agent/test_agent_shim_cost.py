"""Cost of a shim: limits for memory and CPU time, none for wall-clock time."""

import asyncio

import pytest

from agent_figures import idle_shims, pss_kib, stop_all, switches, trivial_cpu_ms
from agent_harness import AgentHarness
from process_attacks import cpu_s_max

pytestmark = pytest.mark.anyio


async def test_an_idle_shim_uses_little_memory_and_no_cpu(harness: AgentHarness) -> None:
    (one,) = await idle_shims(harness, 1)
    assert pss_kib(one) <= 5 * 1024
    many = await idle_shims(harness, 63)
    assert len(many) == 64
    assert sum(map(pss_kib, many)) / 64 <= 1.1 * 1024
    before = {pid: switches(pid) for pid in many}
    await asyncio.sleep(3)  # nothing may happen in this time
    assert {pid: switches(pid) for pid in many} == before
    await stop_all(harness)


async def test_a_start_and_an_exit_take_little_cpu_time(harness: AgentHarness) -> None:
    # The minimum of three: other load can only make it look more expensive.
    assert min([await trivial_cpu_ms(harness, 50) for _ in range(3)]) <= 1000 * cpu_s_max(0.010)
