"""Decisions survive a crash of the server: running grace periods, and tasks waiting for their turn."""

import pytest

from e2e_operator import Operator
from e2e_scheduling import SchedulingHarness, scheduling_harness
from e2e_sessions import submit

pytestmark = pytest.mark.anyio

STUBBORN = "trap '' USR1; echo ready > {ready}; while :; do sleep 0.05; done"


async def test_after_a_server_crash_graces_end_on_time_and_retried_tasks_run_in_turn() -> None:
    async with scheduling_harness("two_gpus.toml") as harness:
        await Operator(harness.client).policy(order="priority", preemption={"preempt": "preemptible", "run_min": 0})
        array = await retried_array(harness)
        shell = STUBBORN.format(ready=harness.mark("ready"))
        victim = await harness.submit_running(
            "victim", shell=shell, checkpoint_signal="SIGUSR1", grace=4, priority="low", preemptible=True
        )
        await harness.wait_for_mark("ready")
        urgent = await harness.submit("urgent", devices="2", priority="high")
        await harness.wait_for_state(victim, "preempting")
        await harness.server.kill()
        await harness.server.start()
        await harness.wait_for_state(urgent, "running")
        seen = await harness.wait_for_state(victim, "queued")
        assert (seen["preemptions"], seen["preemption"]["lost_gpu_seconds"] >= 4) == (1, True)
        for index in range(3):
            await harness.wait_for_state(f"{array}_{index}", "running")
            tasks = (await harness.view(array))["tasks"]
            assert tasks["active"]["indices"] == str(index)
            harness.end(f"task-{index}")
        assert (await harness.wait_for_state(array, "completed"))["tasks"]["completed"]["indices"] == "0-2"


async def retried_array(harness: SchedulingHarness) -> str:
    """An array of three, one at a time; all have failed and wait for a retry."""
    for index in range(3):
        harness.end(f"task-{index}", code=1)
    shell = f"index=$ALIQUOT_ARRAY_INDEX; {harness.wait_for_end_command('task-$index')}"
    array = await submit(harness.client, shell, {"cpu": "1"}, array="0-2", max_parallel=1)
    await harness.wait_for_state(array, "failed")
    for index in range(3):
        harness.mark(f"task-{index}").unlink()
    await harness.change("retry", array)
    await harness.wait_for_state(f"{array}_2", "held")
    return array
