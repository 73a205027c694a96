"""Decisions survive a crash of the server: running grace periods, and tasks waiting for their turn."""

import pytest

from e2e_scheduling import Desk, desk_at
from e2e_sessions import submit
from e2e_steering import Office

pytestmark = pytest.mark.anyio

STUBBORN = "trap '' USR1; echo ready > {ready}; while :; do sleep 0.05; done"


async def test_after_a_server_crash_graces_end_on_time_and_retried_tasks_run_in_turn() -> None:
    async with desk_at("two_gpus.toml") as desk:
        await Office(desk.client).policy(order="priority", preemption={"preempt": "preemptible", "run_min": 0})
        array = await retried_array(desk)
        shell = STUBBORN.format(ready=desk.mark("ready"))
        victim = await desk.running(
            "victim", shell=shell, checkpoint_signal="SIGUSR1", grace=4, priority="low", preemptible=True
        )
        await desk.until_mark("ready")
        urgent = await desk.submit("urgent", devices="2", priority="high")
        await desk.until(victim, "preempting")
        await desk.server.kill()
        await desk.server.start()
        await desk.until(urgent, "running")
        seen = await desk.until(victim, "queued")
        assert (seen["preemptions"], seen["preemption"]["lost_gpu_seconds"] >= 4) == (1, True)
        for index in range(3):
            await desk.until(f"{array}_{index}", "running")
            tasks = (await desk.view(array))["tasks"]
            assert tasks["active"]["indices"] == str(index)
            desk.end(f"task-{index}")
        assert (await desk.until(array, "completed"))["tasks"]["completed"]["indices"] == "0-2"


async def retried_array(desk: Desk) -> str:
    """An array of three, one at a time; all have failed and wait for a retry."""
    for index in range(3):
        desk.end(f"task-{index}", code=1)
    shell = f"index=$ALIQUOT_ARRAY_INDEX; {desk.told('task-$index')}"
    array = await submit(desk.client, shell, {"cpu": "1"}, array="0-2", max_parallel=1)
    await desk.until(array, "failed")
    for index in range(3):
        desk.mark(f"task-{index}").unlink()
    await desk.change("retry", array)
    await desk.until(f"{array}_2", "held")
    return array
