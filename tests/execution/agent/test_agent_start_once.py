"""One start at most, whatever is repeated, late, lost or killed."""

import asyncio
import json
import os
import signal
import time

import pytest

from agent_stand import (
    SHARES,
    TOYS,
    Stand,
    is_running,
    marked,
    new_kernel,
    order,
    parent,
    process_state,
    shell,
    shims,
    until,
)
from aliquot.execution.agent import spawner_process
from aliquot.execution.agent.kernel_watch import NOT_CLAIMED
from aliquot_schema.cluster.launching import KernelPhase, LaunchOrder
from aliquot_schema.errors import StateConflict
from aliquot_schema.ids import KernelId
from aliquot_schema.resources.leases import EndEvidence

pytestmark = pytest.mark.anyio

SHIM_STEPS = ("forked", "locked", "claimed", "child_forked", "pid_written", "gate_open")
COUNTED = "echo start >> $RESULT_DIR/starts; echo began; sleep 1000"


def starts(stand: Stand, asked: LaunchOrder) -> int:
    """How often the job's program has started."""
    session = asked.kernel_id.split(".")[0]
    path = stand.config.folder / "sessions" / session / "result" / "starts"
    return len(path.read_text().splitlines()) if path.exists() else 0


async def end(stand: Stand, asked: LaunchOrder) -> None:
    await stand.core.stop(asked.kernel_id, epoch=asked.epoch, grace_ms=0)
    await stand.ended(asked.kernel_id)
    assert marked(asked.kernel_id) == []


async def test_an_order_that_is_repeated_starts_once(stand: Stand) -> None:
    asked = shell(COUNTED)
    await asyncio.gather(*(stand.core.launch([asked, asked]) for _ in range(5)))
    await stand.told(asked.kernel_id, KernelPhase.STARTED)
    await stand.core.launch([asked])
    await until(lambda: starts(stand, asked) == 1)
    await end(stand, asked)
    await stand.core.launch([asked])
    assert (await stand.ended(asked.kernel_id)).signal == signal.SIGKILL
    assert starts(stand, asked) == 1


async def test_a_repeated_start_by_the_spawner_starts_the_job_once(stand: Stand) -> None:
    asked = shell(COUNTED)
    await stand.core.launch([asked])
    await stand.told(asked.kernel_id, KernelPhase.STARTED)
    held = stand.core._kernels.get(asked.kernel_id)
    assert held is not None
    for _ in range(5):
        stand.core._launching.retry_start(held)
    other = order("true")
    await stand.run(other)
    await until(lambda: len(shims(stand.config.folder)) == 1)
    assert starts(stand, asked) == 1
    await end(stand, asked)


async def test_a_stop_before_its_launch_order_prevents_the_start(stand: Stand) -> None:
    asked = shell(COUNTED)
    await stand.core.stop(asked.kernel_id, epoch=1, grace_ms=0)
    assert (await stand.ended(asked.kernel_id)).evidence is EndEvidence.TOMBSTONE
    report = await stand.run(asked)
    assert (report.phase, report.evidence) == (KernelPhase.REFUSED, EndEvidence.TOMBSTONE)
    await stand.reopen()
    report = await stand.run(asked)
    assert (report.phase, report.evidence, starts(stand, asked)) == (KernelPhase.REFUSED, EndEvidence.TOMBSTONE, 0)


async def test_a_concurrent_start_and_stop_end_with_at_most_one_start(stand: Stand) -> None:
    asked = [shell(COUNTED) for _ in range(20)]

    async def both(each: LaunchOrder) -> None:
        await asyncio.gather(
            stand.core.launch([each]), stand.core.stop(each.kernel_id, epoch=1, grace_ms=0), return_exceptions=False
        )

    await asyncio.gather(*map(both, asked))
    for each in asked:
        await stand.ended(each.kernel_id)
        assert marked(each.kernel_id) == []
        assert starts(stand, each) <= 1


@pytest.mark.parametrize("step", ["forked", "locked"])
async def test_a_stop_prevents_the_start_by_a_shim_without_a_claim(stand: Stand, step: str) -> None:
    asked = shell(COUNTED)
    paused = await pause(stand, asked, step)
    await stand.core.stop(asked.kernel_id, epoch=1, grace_ms=0)
    report = await stand.ended(asked.kernel_id)
    assert (report.phase, report.evidence) == (KernelPhase.REFUSED, EndEvidence.TOMBSTONE)
    os.kill(paused, signal.SIGCONT)
    await until(lambda: not is_running(paused))
    assert starts(stand, asked) == 0


async def test_orders_of_an_older_epoch_are_refused_also_after_a_restart(stand: Stand) -> None:
    await stand.run(order("true", epoch=7))
    await stand.reopen()
    late = order("true", epoch=6)
    report = await stand.run(late)
    assert (report.phase, report.code) == (KernelPhase.REFUSED, "stale_epoch")
    running = order("sleep", "1000", epoch=7)
    await stand.core.launch([running])
    await stand.told(running.kernel_id, KernelPhase.STARTED)
    with pytest.raises(StateConflict):
        await stand.core.stop(running.kernel_id, epoch=6, grace_ms=0)
    with pytest.raises(StateConflict):
        await stand.core.send_signal(running.kernel_id, epoch=6, signal=9)
    await end(stand, running)


async def test_an_order_of_an_older_leader_does_not_end_a_running_kernel(stand: Stand) -> None:
    running = order("sleep", "1000", epoch=7)
    await stand.core.launch([running])
    await stand.told(running.kernel_id, KernelPhase.STARTED)
    await stand.core.launch([order("true", kernel=running.kernel_id, epoch=6)])
    assert {report.phase for report in stand.reports(running.kernel_id)} == {KernelPhase.STARTED}
    await end(stand, running)


async def test_an_older_attempt_is_refused(stand: Stand) -> None:
    session = new_kernel().split(".")[0]
    await stand.run(order("true", kernel=KernelId(f"{session}.2.0")))
    await stand.reopen()
    report = await stand.run(order("true", kernel=KernelId(f"{session}.1.0")))
    assert (report.phase, report.code) == (KernelPhase.REFUSED, "stale_attempt")
    assert (await stand.run(order("true", kernel=KernelId(f"{session}.2.1")))).exit_code == 0


async def test_an_order_that_waited_too_long_in_the_spawner_is_refused(stand: Stand) -> None:
    spawner = stand.core.spawner_pid
    assert spawner is not None
    os.kill(spawner, signal.SIGSTOP)
    now_us = time.time_ns() // 1000
    asked = shell(COUNTED, not_after_us=now_us + 200_000)
    await stand.core.launch([asked])
    await until(lambda: time.time_ns() // 1000 > now_us + 200_000)
    os.kill(spawner, signal.SIGCONT)
    report = await stand.ended(asked.kernel_id)
    assert (report.phase, report.code, starts(stand, asked)) == (KernelPhase.REFUSED, "too_late", 0)


@pytest.mark.parametrize("step", SHIM_STEPS)
async def test_a_shim_killed_during_the_start_is_detected(stand: Stand, step: str) -> None:
    asked = shell(COUNTED)
    paused = await pause(stand, asked, step)
    os.kill(paused, signal.SIGKILL)
    if step in ("forked", "locked"):
        await until(lambda: starts(stand, asked) == 1)
        await end(stand, asked)
        assert starts(stand, asked) == 1
        return
    report = await stand.ended(asked.kernel_id)
    assert (report.phase, report.evidence) == (KernelPhase.EXITED, EndEvidence.LOCK_AND_GROUP)
    assert (report.exit_code, report.signal) == (None, signal.SIGKILL)
    assert starts(stand, asked) <= (1 if step == "gate_open" else 0)
    assert marked(asked.kernel_id) == []
    await stand.reopen()
    assert [each.evidence for each in stand.inventory.kernels] == [EndEvidence.LOCK_AND_GROUP]
    await stand.core.launch([asked])
    await stand.ended(asked.kernel_id)
    assert starts(stand, asked) <= 1


@pytest.mark.parametrize("step", SHIM_STEPS)
async def test_a_restarted_agent_finds_a_shim_at_any_step_of_its_start(stand: Stand, step: str) -> None:
    asked = shell(COUNTED)
    paused = await pause(stand, asked, step)
    await stand.reopen()
    os.kill(paused, signal.SIGCONT)
    await stand.core.launch([asked])
    await stand.told(asked.kernel_id, KernelPhase.STARTED)
    await until(lambda: starts(stand, asked) == 1)
    await end(stand, asked)
    assert starts(stand, asked) == 1


async def test_a_job_killed_before_its_program_begins_is_reported_with_its_signal(stand: Stand) -> None:
    asked = shell(COUNTED)
    stand.core.pause_at = "child"
    await stand.core.launch([asked])
    await until(lambda: len(stopped(stand)) == 1)
    os.kill(stopped(stand)[0], signal.SIGKILL)
    report = await stand.ended(asked.kernel_id)
    assert (report.signal, starts(stand, asked)) == (signal.SIGKILL, 0)


async def test_the_job_of_a_killed_shim_is_killed_too(stand: Stand) -> None:
    asked = shell("(setsid sleep 1000 &); sleep 1000")
    await stand.core.launch([asked])
    await until(lambda: len(marked(asked.kernel_id)) >= 3)
    (shim,) = shims(stand.config.folder)
    os.kill(shim, signal.SIGKILL)
    report = await stand.ended(asked.kernel_id)
    assert (report.evidence, report.exit_code, report.signal) == (EndEvidence.LOCK_AND_GROUP, None, signal.SIGKILL)
    assert report.ran_ms is not None
    assert marked(asked.kernel_id) == []


async def test_without_a_cgroup_processes_of_a_killed_shim_are_found_by_their_mark(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stand.core._preparation, "_groups", None)
    asked = shell("(setsid sh -c 'sleep 1000 & sleep 1000' &); sleep 1000")
    await stand.core.launch([asked])
    await until(lambda: len(marked(asked.kernel_id)) >= 4)
    (shim,) = shims(stand.config.folder)
    os.kill(shim, signal.SIGKILL)
    report = await stand.ended(asked.kernel_id)
    assert (report.evidence, marked(asked.kernel_id)) == (EndEvidence.LOCK_AND_GROUP, [])


async def test_without_a_cgroup_a_daemonised_grandchild_is_stopped(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stand.core._preparation, "_groups", None)
    asked = shell("trap '' TERM; (setsid sh -c 'sleep 1000 & sleep 1000' &); sleep 1000")
    await stand.core.launch([asked])
    await until(lambda: len(marked(asked.kernel_id)) >= 4)
    await stand.core.stop(asked.kernel_id, epoch=1, grace_ms=100)
    assert (await stand.ended(asked.kernel_id)).evidence is EndEvidence.EXIT_FILE
    assert marked(asked.kernel_id) == []


async def test_a_spawner_that_is_killed_is_replaced_and_kernels_run_on(stand: Stand) -> None:
    running = shell(COUNTED)
    await stand.core.launch([running])
    await stand.told(running.kernel_id, KernelPhase.STARTED)
    first = stand.core.spawner_pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await until(lambda: stand.core.spawner_pid not in (None, first))
    assert (await stand.run(order("true"))).exit_code == 0
    assert {report.phase for report in stand.reports(running.kernel_id)} == {KernelPhase.STARTED}
    await end(stand, running)
    assert starts(stand, running) == 1


async def test_orders_in_a_spawner_that_is_killed_are_started_once(stand: Stand) -> None:
    spawner = stand.core.spawner_pid
    assert spawner is not None
    os.kill(spawner, signal.SIGSTOP)
    asked = [shell(COUNTED) for _ in range(5)]
    await stand.core.launch(asked)
    os.kill(spawner, signal.SIGKILL)
    for each in asked:
        await stand.told(each.kernel_id, KernelPhase.STARTED)
    await until(lambda: all(starts(stand, each) == 1 for each in asked))
    for each in asked:
        await end(stand, each)
    assert [starts(stand, each) for each in asked] == [1] * 5


async def test_a_spawner_that_is_frozen_is_replaced_and_starts_each_order_once(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spawner_process, "_WRITE_PATIENCE_MS", 100)
    spawner = stand.core.spawner_pid
    assert spawner is not None
    os.kill(spawner, signal.SIGSTOP)
    much = {f"MUCH_{number}": "x" * 100_000 for number in range(5)}
    asked = [shell(COUNTED, environment=much) for _ in range(5)]
    await stand.core.launch(asked)
    for each in asked:
        await stand.told(each.kernel_id, KernelPhase.STARTED)
    await until(lambda: all(starts(stand, each) == 1 for each in asked))
    assert not is_running(spawner)
    for each in asked:
        await end(stand, each)


async def test_an_order_that_was_not_started_is_reported_and_can_be_started_or_stopped(stand: Stand) -> None:
    spawner = stand.core.spawner_pid
    assert spawner is not None
    os.kill(spawner, signal.SIGSTOP)
    first, second = shell(COUNTED), shell(COUNTED)
    await stand.core.launch([first, second])
    os.kill(spawner, signal.SIGKILL)
    stand.core._spawner._on_restart = lambda: None
    await stand.reopen()
    codes = {report.kernel_id: report.code for report in stand.inventory.kernels}
    assert codes == {first.kernel_id: NOT_CLAIMED, second.kernel_id: NOT_CLAIMED}
    assert {each.spec is not None and each.ended for each in stand.inventory.specs} == {False}
    await stand.core.stop(second.kernel_id, epoch=1, grace_ms=0)
    assert (await stand.ended(second.kernel_id)).evidence is EndEvidence.TOMBSTONE
    await stand.core.launch([first])
    await stand.told(first.kernel_id, KernelPhase.STARTED)
    await until(lambda: starts(stand, first) == 1)
    await end(stand, first)


async def test_kernels_of_an_earlier_boot_have_ended(stand: Stand) -> None:
    running = order("sleep", "1000", spec={SHARES: {TOYS[0]: 10}})
    await stand.core.launch([running])
    await stand.told(running.kernel_id, KernelPhase.STARTED)
    (shim,) = shims(stand.config.folder)
    os.kill(shim, signal.SIGSTOP)
    for pid in marked(running.kernel_id):
        os.kill(pid, signal.SIGKILL)
    await stand.close()
    os.kill(shim, signal.SIGKILL)
    await until(lambda: not is_running(shim))
    path = stand.folder(running.kernel_id) / "order.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"boot_id": "an earlier one"}))
    stand.said.clear()
    stand._new_core()
    await stand.open()
    report = await stand.ended(running.kernel_id)
    assert (report.phase, report.evidence, report.ran_ms) == (KernelPhase.EXITED, EndEvidence.BOOT_ID, None)


async def pause(stand: Stand, asked: LaunchOrder, step: str) -> int:
    """Launch, and wait until the shim has stopped itself at a step; later launches do not pause."""
    stand.core.pause_at = step
    await stand.core.launch([asked])
    stand.core.pause_at = None
    await until(lambda: len(stopped(stand)) == 1)
    return stopped(stand)[0]


def stopped(stand: Stand) -> list[int]:
    """The shims of the agent's spawner, and their children, that have stopped themselves."""
    parents = {pid: parent(pid) for pid in map(int, filter(str.isdecimal, os.listdir("/proc")))}
    shims = {pid for pid, above in parents.items() if above == stand.core.spawner_pid}
    below = {pid for pid, above in parents.items() if above in shims}
    return [pid for pid in sorted(shims | below) if process_state(pid) == "T"]
