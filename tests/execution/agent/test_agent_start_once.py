"""One start at most, whatever is repeated, late, lost or killed."""

import asyncio
import errno
import json
import os
import signal
import subprocess
import time
from typing import Any

import pytest

from agent_harness import (
    SHARES,
    TOYS,
    AgentHarness,
    is_running,
    marked_processes,
    new_kernel,
    order,
    parent_pid,
    process_state,
    shell,
    shim_pids,
    wait_until,
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


def starts(harness: AgentHarness, asked: LaunchOrder) -> int:
    """How often the job's program has started."""
    session = asked.kernel_id.split(".")[0]
    path = harness.config.folder / "sessions" / session / "result" / "starts"
    return len(path.read_text().splitlines()) if path.exists() else 0


async def end(harness: AgentHarness, asked: LaunchOrder) -> None:
    await harness.core.stop(asked.kernel_id, epoch=asked.epoch, grace_ms=0)
    await harness.wait_for_end(asked.kernel_id)
    assert marked_processes(asked.kernel_id) == []


async def test_an_order_that_is_repeated_starts_once(harness: AgentHarness) -> None:
    asked = shell(COUNTED)
    await asyncio.gather(*(harness.core.launch([asked, asked]) for _ in range(5)))
    await harness.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    await harness.core.launch([asked])
    await wait_until(lambda: starts(harness, asked) == 1)
    await end(harness, asked)
    await harness.core.launch([asked])
    assert (await harness.wait_for_end(asked.kernel_id)).signal == signal.SIGKILL
    assert starts(harness, asked) == 1


async def test_a_repeated_start_by_the_spawner_starts_the_job_once(harness: AgentHarness) -> None:
    asked = shell(COUNTED)
    await harness.core.launch([asked])
    await harness.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    held = harness.core._kernels.get(asked.kernel_id)
    assert held is not None
    for _ in range(5):
        harness.core._launching.retry_start(held)
    other = order("true")
    await harness.run(other)
    await wait_until(lambda: len(shim_pids(harness.config.folder)) == 1)
    assert starts(harness, asked) == 1
    await end(harness, asked)


async def test_a_stop_before_its_launch_order_prevents_the_start(harness: AgentHarness) -> None:
    asked = shell(COUNTED)
    await harness.core.stop(asked.kernel_id, epoch=1, grace_ms=0)
    assert (await harness.wait_for_end(asked.kernel_id)).evidence is EndEvidence.TOMBSTONE
    report = await harness.run(asked)
    assert (report.phase, report.evidence) == (KernelPhase.REFUSED, EndEvidence.TOMBSTONE)
    await harness.restart()
    report = await harness.run(asked)
    assert (report.phase, report.evidence, starts(harness, asked)) == (KernelPhase.REFUSED, EndEvidence.TOMBSTONE, 0)


async def test_a_concurrent_start_and_stop_end_with_at_most_one_start(harness: AgentHarness) -> None:
    asked = [shell(COUNTED) for _ in range(20)]

    async def both(each: LaunchOrder) -> None:
        await asyncio.gather(
            harness.core.launch([each]), harness.core.stop(each.kernel_id, epoch=1, grace_ms=0), return_exceptions=False
        )

    await asyncio.gather(*map(both, asked))
    for each in asked:
        await harness.wait_for_end(each.kernel_id)
        assert marked_processes(each.kernel_id) == []
        assert starts(harness, each) <= 1


@pytest.mark.parametrize("step", ["forked", "locked"])
async def test_a_stop_prevents_the_start_by_a_shim_without_a_claim(harness: AgentHarness, step: str) -> None:
    asked = shell(COUNTED)
    # A slow machine might take longer than `start_patience_s`, after which a second shim is started.
    harness.core._watch._start_again = lambda kernel: None
    paused = await pause(harness, asked, step)
    await harness.core.stop(asked.kernel_id, epoch=1, grace_ms=0)
    report = await harness.wait_for_end(asked.kernel_id)
    assert (report.phase, report.evidence) == (KernelPhase.REFUSED, EndEvidence.TOMBSTONE)
    os.kill(paused, signal.SIGCONT)
    await wait_until(lambda: not is_running(paused))
    assert starts(harness, asked) == 0


async def test_orders_of_an_older_epoch_are_refused_also_after_a_restart(harness: AgentHarness) -> None:
    await harness.run(order("true", epoch=7))
    await harness.restart()
    late = order("true", epoch=6)
    report = await harness.run(late)
    assert (report.phase, report.code) == (KernelPhase.REFUSED, "stale_epoch")
    running = order("sleep", "1000", epoch=7)
    await harness.core.launch([running])
    await harness.wait_for_report(running.kernel_id, KernelPhase.STARTED)
    with pytest.raises(StateConflict):
        await harness.core.stop(running.kernel_id, epoch=6, grace_ms=0)
    with pytest.raises(StateConflict):
        await harness.core.send_signal(running.kernel_id, epoch=6, signal=9)
    await end(harness, running)


async def test_an_order_of_an_older_leader_does_not_end_a_running_kernel(harness: AgentHarness) -> None:
    running = order("sleep", "1000", epoch=7)
    await harness.core.launch([running])
    await harness.wait_for_report(running.kernel_id, KernelPhase.STARTED)
    await harness.core.launch([order("true", kernel=running.kernel_id, epoch=6)])
    assert {report.phase for report in harness.reports(running.kernel_id)} == {KernelPhase.STARTED}
    await end(harness, running)


async def test_an_older_attempt_is_refused(harness: AgentHarness) -> None:
    session = new_kernel().split(".")[0]
    await harness.run(order("true", kernel=KernelId(f"{session}.2.0")))
    await harness.restart()
    report = await harness.run(order("true", kernel=KernelId(f"{session}.1.0")))
    assert (report.phase, report.code) == (KernelPhase.REFUSED, "stale_attempt")
    assert (await harness.run(order("true", kernel=KernelId(f"{session}.2.1")))).exit_code == 0


async def test_an_order_that_waited_too_long_in_the_spawner_is_refused(harness: AgentHarness) -> None:
    spawner = harness.spawner_pid
    assert spawner is not None
    os.kill(spawner, signal.SIGSTOP)
    now_us = time.time_ns() // 1000
    asked = shell(COUNTED, not_after_us=now_us + 200_000)
    await harness.core.launch([asked])
    await wait_until(lambda: time.time_ns() // 1000 > now_us + 200_000)
    os.kill(spawner, signal.SIGCONT)
    report = await harness.wait_for_end(asked.kernel_id)
    assert (report.phase, report.code, starts(harness, asked)) == (KernelPhase.REFUSED, "too_late", 0)


@pytest.mark.parametrize("step", SHIM_STEPS)
async def test_a_shim_killed_during_the_start_is_detected(harness: AgentHarness, step: str) -> None:
    asked = shell(COUNTED)
    paused = await pause(harness, asked, step)
    os.kill(paused, signal.SIGKILL)
    if step in ("forked", "locked"):
        await wait_until(lambda: starts(harness, asked) == 1)
        await end(harness, asked)
        assert starts(harness, asked) == 1
        return
    report = await harness.wait_for_end(asked.kernel_id)
    assert (report.phase, report.evidence) == (KernelPhase.EXITED, EndEvidence.LOCK_AND_GROUP)
    assert (report.exit_code, report.signal) == (None, signal.SIGKILL)
    assert starts(harness, asked) <= (1 if step == "gate_open" else 0)
    assert marked_processes(asked.kernel_id) == []
    await harness.restart()
    assert [each.evidence for each in harness.inventory.kernels] == [EndEvidence.LOCK_AND_GROUP]
    await harness.core.launch([asked])
    await harness.wait_for_end(asked.kernel_id)
    assert starts(harness, asked) <= 1


@pytest.mark.parametrize("step", SHIM_STEPS)
async def test_a_restarted_agent_finds_a_shim_at_any_step_of_its_start(harness: AgentHarness, step: str) -> None:
    asked = shell(COUNTED)
    paused = await pause(harness, asked, step)
    await harness.restart()
    os.kill(paused, signal.SIGCONT)
    await harness.core.launch([asked])
    await harness.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    await wait_until(lambda: starts(harness, asked) == 1)
    await end(harness, asked)
    assert starts(harness, asked) == 1


async def test_a_job_killed_before_its_program_begins_is_reported_with_its_signal(harness: AgentHarness) -> None:
    asked = shell(COUNTED)
    harness.core.pause_at = "child"
    await harness.core.launch([asked])
    await wait_until(lambda: len(stopped(harness)) == 1)
    os.kill(stopped(harness)[0], signal.SIGKILL)
    report = await harness.wait_for_end(asked.kernel_id)
    assert (report.signal, starts(harness, asked)) == (signal.SIGKILL, 0)


async def test_the_job_of_a_killed_shim_is_killed_too(harness: AgentHarness) -> None:
    asked = shell("(setsid sleep 1000 &); sleep 1000")
    await harness.core.launch([asked])
    await wait_until(lambda: len(marked_processes(asked.kernel_id)) >= 3)
    (shim,) = shim_pids(harness.config.folder)
    os.kill(shim, signal.SIGKILL)
    report = await harness.wait_for_end(asked.kernel_id)
    assert (report.evidence, report.exit_code, report.signal) == (EndEvidence.LOCK_AND_GROUP, None, signal.SIGKILL)
    assert report.ran_ms is not None
    assert marked_processes(asked.kernel_id) == []


async def test_without_a_cgroup_processes_of_a_killed_shim_are_found_by_their_mark(
    harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness.core._preparation, "_groups", None)
    asked = shell("(setsid sh -c 'sleep 1000 & sleep 1000' &); sleep 1000")
    await harness.core.launch([asked])
    await wait_until(lambda: len(marked_processes(asked.kernel_id)) >= 4)
    (shim,) = shim_pids(harness.config.folder)
    os.kill(shim, signal.SIGKILL)
    report = await harness.wait_for_end(asked.kernel_id)
    assert (report.evidence, marked_processes(asked.kernel_id)) == (EndEvidence.LOCK_AND_GROUP, [])


async def test_without_a_cgroup_a_daemonised_grandchild_is_stopped(
    harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness.core._preparation, "_groups", None)
    asked = shell("trap '' TERM; (setsid sh -c 'sleep 1000 & sleep 1000' &); sleep 1000")
    await harness.core.launch([asked])
    await wait_until(lambda: len(marked_processes(asked.kernel_id)) >= 4)
    await harness.core.stop(asked.kernel_id, epoch=1, grace_ms=100)
    assert (await harness.wait_for_end(asked.kernel_id)).evidence is EndEvidence.EXIT_FILE
    assert marked_processes(asked.kernel_id) == []


async def test_a_spawner_that_is_killed_is_replaced_and_kernels_run_on(harness: AgentHarness) -> None:
    running = shell(COUNTED)
    await harness.core.launch([running])
    await harness.wait_for_report(running.kernel_id, KernelPhase.STARTED)
    first = harness.spawner_pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await wait_until(lambda: harness.spawner_pid not in (None, first))
    assert (await harness.run(order("true"))).exit_code == 0
    assert {report.phase for report in harness.reports(running.kernel_id)} == {KernelPhase.STARTED}
    await end(harness, running)
    assert starts(harness, running) == 1


async def test_a_spawner_that_cannot_be_started_is_tried_again(
    harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spawner_process, "_LIFE_S_MIN", 0.1)
    first, popen = harness.spawner_pid, subprocess.Popen
    failures: list[object] = []

    def fail_once(*args: Any, **kwargs: Any) -> Any:
        if not failures:
            failures.append(args)
            raise BlockingIOError(errno.EAGAIN, "no process can be created")
        return popen(*args, **kwargs)

    monkeypatch.setattr(spawner_process.subprocess, "Popen", fail_once)
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await wait_until(lambda: harness.spawner_pid not in (None, first))
    assert failures
    assert (await harness.run(order("true"))).exit_code == 0


async def test_orders_in_a_spawner_that_is_killed_are_started_once(harness: AgentHarness) -> None:
    spawner = harness.spawner_pid
    assert spawner is not None
    os.kill(spawner, signal.SIGSTOP)
    asked = [shell(COUNTED) for _ in range(5)]
    await harness.core.launch(asked)
    os.kill(spawner, signal.SIGKILL)
    for each in asked:
        await harness.wait_for_report(each.kernel_id, KernelPhase.STARTED)
    await wait_until(lambda: all(starts(harness, each) == 1 for each in asked))
    for each in asked:
        await end(harness, each)
    assert [starts(harness, each) for each in asked] == [1] * 5


async def test_a_spawner_that_is_frozen_is_replaced_and_starts_each_order_once(
    harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spawner_process, "_WRITE_PATIENCE_MS", 100)
    spawner = harness.spawner_pid
    assert spawner is not None
    os.kill(spawner, signal.SIGSTOP)
    much = {f"MUCH_{number}": "x" * 100_000 for number in range(5)}
    asked = [shell(COUNTED, environment=much) for _ in range(5)]
    await harness.core.launch(asked)
    for each in asked:
        await harness.wait_for_report(each.kernel_id, KernelPhase.STARTED)
    await wait_until(lambda: all(starts(harness, each) == 1 for each in asked))
    assert not is_running(spawner)
    for each in asked:
        await end(harness, each)


async def test_an_order_that_was_not_started_is_reported_and_can_be_started_or_stopped(harness: AgentHarness) -> None:
    spawner = harness.spawner_pid
    assert spawner is not None
    os.kill(spawner, signal.SIGSTOP)
    first, second = shell(COUNTED), shell(COUNTED)
    await harness.core.launch([first, second])
    os.kill(spawner, signal.SIGKILL)
    harness.core._spawner._on_restart = lambda: None
    await harness.restart()
    codes = {report.kernel_id: report.code for report in harness.inventory.kernels}
    assert codes == {first.kernel_id: NOT_CLAIMED, second.kernel_id: NOT_CLAIMED}
    assert {each.spec is not None and each.ended for each in harness.inventory.specs} == {False}
    await harness.core.stop(second.kernel_id, epoch=1, grace_ms=0)
    assert (await harness.wait_for_end(second.kernel_id)).evidence is EndEvidence.TOMBSTONE
    await harness.core.launch([first])
    await harness.wait_for_report(first.kernel_id, KernelPhase.STARTED)
    await wait_until(lambda: starts(harness, first) == 1)
    await end(harness, first)


async def test_kernels_of_an_earlier_boot_have_ended(harness: AgentHarness) -> None:
    running = order("sleep", "1000", spec={SHARES: {TOYS[0]: 10}})
    await harness.core.launch([running])
    await harness.wait_for_report(running.kernel_id, KernelPhase.STARTED)
    (shim,) = shim_pids(harness.config.folder)
    os.kill(shim, signal.SIGSTOP)
    for pid in marked_processes(running.kernel_id):
        os.kill(pid, signal.SIGKILL)
    await harness.close()
    os.kill(shim, signal.SIGKILL)
    await wait_until(lambda: not is_running(shim))
    path = harness.folder(running.kernel_id) / "order.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"boot_id": "an earlier one"}))
    harness.messages.clear()
    harness._new_core()
    await harness.open()
    report = await harness.wait_for_end(running.kernel_id)
    assert (report.phase, report.evidence, report.ran_ms) == (KernelPhase.EXITED, EndEvidence.BOOT_ID, None)


async def pause(harness: AgentHarness, asked: LaunchOrder, step: str) -> int:
    """Launch, and wait until the shim has stopped itself at a step; later launches do not pause."""
    harness.core.pause_at = step
    await harness.core.launch([asked])
    harness.core.pause_at = None
    await wait_until(lambda: len(stopped(harness)) == 1)
    return stopped(harness)[0]


def stopped(harness: AgentHarness) -> list[int]:
    """The shims of the agent's spawner, and their children, that have stopped themselves."""
    parents = {pid: parent_pid(pid) for pid in map(int, filter(str.isdecimal, os.listdir("/proc")))}
    shims = {pid for pid, above in parents.items() if above == harness.spawner_pid}
    below = {pid for pid, above in parents.items() if above in shims}
    return [pid for pid in sorted(shims | below) if process_state(pid) == "T"]
