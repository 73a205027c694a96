"""CPU and memory usage of a session, measured from its real processes."""

import pytest

from aliquot.cli.session.stats import stats_lines
from aliquot.client.generated.history import SessionStats
from e2e_scheduling import SchedulingHarness
from e2e_sessions import submit, until

pytestmark = pytest.mark.anyio

GIB = 1 << 30


async def test_cpu_and_memory_use_of_real_processes_is_measured(harness: SchedulingHarness) -> None:
    flag = harness.mark("busy")
    burn = f"while [ ! -e {flag} ]; do :; done & {harness.wait_for_end_command('busy')}"
    session_id = await submit(harness.client, burn, {"cuda.device": "1", "cpu": "2", "mem": "2g"}, name="busy")

    async def measured() -> SessionStats | None:
        found = await harness.client.session_stats(session_id)
        return found if found.hosts and (found.hosts[0].cpu or 0.0) > 0.2 else None

    seen = await until(measured)
    [host] = seen.hosts
    assert (host.rank, host.cpu_held, host.memory_held) == (0, 2.0, 2 * GIB)
    assert 0.2 < (host.cpu or 0.0) <= (host.cpu_max or 0.0) < 3.0
    assert 1 << 18 < (host.memory or 0) <= (host.memory_peak or 0) < GIB
    [line] = [line for line in stats_lines(seen, names={}) if line.startswith("CPU, memory")]
    assert " of 2 (at most " in line
    assert " MiB of 2 GiB" in line
    harness.end("busy")
    await harness.wait_for_state(session_id, "completed")
    [ended] = (await harness.client.session_stats(session_id)).hosts
    assert (ended.cpu, ended.memory) == (None, None)
    assert (ended.memory_peak or 0) >= (host.memory_peak or 0)
    assert ended.cpu_seconds >= host.cpu_seconds > 0.2
    assert (ended.cpu_mean or 0.0) > 0.1
