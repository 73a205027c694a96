"""Checkpoints at an agent: what acknowledges one, when a job is asked for one, and where the next attempt finds it."""

from pathlib import Path
from signal import SIGUSR1
from threading import Event, Thread
from typing import Final

import pytest
from msgspec.structs import replace

from agent_harness import AgentHarness, agent_config, new_kernel, shell, wait_until
from aliquot.execution.agent import checkpoints
from aliquot.execution.agent.agent_folder import AgentFolder
from aliquot.execution.agent.checkpoints import Checkpoints
from aliquot.execution.agent.json_files import replace_file
from aliquot.execution.agent.kernels import KernelHandle
from aliquot.execution.settings import DiskRules
from aliquot_schema.cluster.launching import CheckpointOrder, KernelPhase, KernelReport, LaunchOrder
from aliquot_schema.ids import AgentId, KernelId, kernel_id, kernel_parts

pytestmark = pytest.mark.anyio

DONE: Final = '"$CHECKPOINT_DIR/DONE"'
SAVES_WHEN_ASKED: Final = (
    f"trap 'n=$((n + 1)); echo $n > {DONE}; echo saved $n' USR1; echo ready; while :; do sleep 0.05; done"
)


def after(kernel: KernelId, report: KernelReport, *, agent: str = "agent-1", script: str = "true") -> LaunchOrder:
    """The next attempt of a session whose last one acknowledged a checkpoint."""
    session, attempt, rank = kernel_parts(kernel)
    made = CheckpointOrder(kept_ms=report.saved_ms or 0, agent_id=AgentId(agent))
    return shell(script, kernel=kernel_id(session, attempt=attempt + 1, rank=rank), checkpoint=made)


async def saved(harness: AgentHarness, kernel: KernelId, *, above: int = -1) -> KernelReport:
    """Wait until a running kernel reports a save newer than this."""

    def is_told() -> bool:
        return any((report.saved_ms or -1) > above for report in harness.reports(kernel))

    await wait_until(is_told)
    return harness.reports(kernel)[-1]


async def test_a_done_file_acknowledges_the_work_up_to_its_time(harness: AgentHarness) -> None:
    asked = shell(f"sleep 0.2; touch {DONE}; sleep 0.2")
    report = await harness.run(asked)
    assert report.ran_ms is not None
    assert report.saved_ms is not None
    assert 190 <= report.saved_ms <= report.ran_ms - 190
    assert (report.resumed_ms, report.resume_note) == (0, None)


async def test_without_a_done_file_no_checkpoint_is_acknowledged(harness: AgentHarness) -> None:
    assert (await harness.run(shell("echo step > $CHECKPOINT_DIR/step"))).saved_ms is None
    assert (await harness.run(shell(f"mkdir {DONE}"))).saved_ms is None
    assert (await harness.run(shell(f"ln -s /etc/passwd {DONE}"))).saved_ms is None


async def test_exit_code_85_acknowledges_the_whole_run(harness: AgentHarness) -> None:
    report = await harness.run(shell("sleep 0.2; exit 85"))
    assert (report.exit_code, report.saved_ms) == (85, report.ran_ms)
    assert (await harness.run(shell("exit 84"))).saved_ms is None


async def test_only_rank_0_acknowledges(harness: AgentHarness) -> None:
    assert (await harness.run(shell(f"touch {DONE}; exit 85", kernel=new_kernel(rank=1)))).saved_ms is None


async def test_a_checkpoint_of_a_running_job_is_reported_and_survives_an_agent_restart(harness: AgentHarness) -> None:
    asked = shell(f"touch {DONE}; exec sleep 600")
    await harness.core.launch([asked])
    first = await saved(harness, asked.kernel_id)
    assert first.phase is KernelPhase.STARTED
    await harness.restart()
    assert (await saved(harness, asked.kernel_id)).saved_ms == first.saved_ms
    await harness.core.stop(asked.kernel_id, epoch=1, grace_ms=100)
    assert (await harness.wait_for_end(asked.kernel_id)).saved_ms == first.saved_ms


async def test_the_next_attempt_resumes_from_a_checkpoint_and_ignores_the_old_done_file(harness: AgentHarness) -> None:
    asked = shell(f"sleep 0.1; touch {DONE}")
    first = await harness.run(asked)
    second = await harness.run(after(asked.kernel_id, first, script=f"test -e {DONE}"))
    assert (second.exit_code, second.resumed_ms, second.saved_ms) == (0, first.saved_ms, None)
    third = after(asked.kernel_id, first, script=f"sleep 0.1; touch {DONE}")
    session, _, rank = kernel_parts(third.kernel_id)
    more = await harness.run(replace(third, kernel_id=kernel_id(session, attempt=3, rank=rank)))
    assert more.saved_ms is not None
    assert more.saved_ms > (first.saved_ms or 0) + 99


async def test_a_job_gets_the_checkpoint_signal_at_regular_intervals(harness: AgentHarness) -> None:
    asked = shell(SAVES_WHEN_ASKED, checkpoint=CheckpointOrder(signal=int(SIGUSR1), every_ms=300))
    await harness.core.launch([asked])
    await wait_until(lambda: "saved 3" in harness.output(asked.kernel_id))
    await saved(harness, asked.kernel_id)


async def test_a_job_gets_one_checkpoint_signal_before_its_time_limit(harness: AgentHarness) -> None:
    made = CheckpointOrder(signal=int(SIGUSR1), before_limit_ms=1000)
    report = await harness.run(shell(SAVES_WHEN_ASKED, time_limit_ms=2000, grace_ms=100, checkpoint=made))
    assert report.timed_out
    assert harness.output(report.kernel_id).split("\n")[:2] == ["ready", "saved 1"]
    assert report.saved_ms is not None
    assert 900 <= report.saved_ms <= 2000


async def test_a_job_without_a_handler_gets_no_checkpoint_signal(harness: AgentHarness) -> None:
    made = CheckpointOrder(signal=int(SIGUSR1), every_ms=50)
    assert (await harness.run(shell("exec sleep 0.5", checkpoint=made))).exit_code == 0


async def test_a_checkpoint_on_another_agent_is_not_used_and_the_reason_is_reported(harness: AgentHarness) -> None:
    lost = CheckpointOrder(kept_ms=5000, agent_id=AgentId("agent-9"))
    report = await harness.run(shell("true", checkpoint=lost))
    assert report.resumed_ms == 0
    assert report.resume_note == (
        "its last checkpoint is on agent agent-9, and agent agent-1 has no shared folder for checkpoints "
        "(checkpoint-folder)"
    )
    own = await harness.run(shell("true", checkpoint=replace(lost, agent_id=AgentId("agent-1"))))
    assert own.resume_note == "its last checkpoint is no longer in the folder of agent agent-1"


async def test_a_shared_folder_brings_a_checkpoint_to_another_agent(agent_home: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    here, there = (
        AgentHarness(agent_config(agent_home / name, id=AgentId(name), disk=DiskRules(checkpoint_folder=shared)))
        for name in ("here", "there")
    )
    for harness in (here, there):
        await harness.open()
    try:
        work = (
            "mkdir -p $CHECKPOINT_DIR/deep; echo 41 > $CHECKPOINT_DIR/deep/step; ln -s deep/step $CHECKPOINT_DIR/last"
        )
        asked = shell(f"{work}; sleep 0.1; touch {DONE}; exec sleep 600")
        await here.core.launch([asked])
        first = await saved(here, asked.kernel_id)
        session = shared / kernel_parts(asked.kernel_id)[0]
        await wait_until(lambda: (session / str(first.saved_ms)).exists())
        await here.core.stop(asked.kernel_id, epoch=1, grace_ms=100)
        await here.wait_for_end(asked.kernel_id)
        reads = f"cat $CHECKPOINT_DIR/last; readlink $CHECKPOINT_DIR/last; sleep 0.1; echo 42 > {DONE}"
        second = after(asked.kernel_id, first, agent="here", script=reads)
        report = await there.run(second)
        assert there.output(second.kernel_id).split() == ["41", "deep/step"]
        assert (report.resumed_ms, report.resume_note) == (first.saved_ms, None)
        assert [path.name for path in session.iterdir()] == [str(report.saved_ms)], "an older copy is left"
        third = replace(
            after(second.kernel_id, report, agent="there", script=f"cat {DONE}"),
            checkpoint=CheckpointOrder(kept_ms=10**9),
        )
        back = await here.run(third)
        assert (here.output(third.kernel_id), back.resumed_ms) == ("42\n", report.saved_ms)
        assert back.resume_note == "its last checkpoint was not copied before its agent was lost"
    finally:
        for harness in (here, there):
            await harness.close()


def test_the_final_checkpoint_check_waits_for_one_in_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last report had no checkpoint if a check in another thread had seen DONE and not yet recorded it."""
    folder = AgentFolder(tmp_path)
    kernel = KernelHandle(folder=folder.kernel(new_kernel()))
    kernel.folder.pid.parent.mkdir(parents=True)
    kernel.folder.pid.touch()
    (folder.sessions / kernel.session_id / checkpoints.FOLDER).mkdir(parents=True)
    (folder.sessions / kernel.session_id / checkpoints.FOLDER / "DONE").touch()
    is_noting, may_note = Event(), Event()

    def slowly(path: Path, fields: dict[str, object]) -> None:
        is_noting.set()
        may_note.wait()
        replace_file(path, fields)

    monkeypatch.setattr(checkpoints, "replace_file", slowly)
    kept = Checkpoints(AgentId("agent-1"), folder=folder, shared=None)
    seen: list[int | None] = []
    periodic = Thread(target=kept.look, args=(kernel,))
    last = Thread(target=lambda: (kept.look(kernel, ended={"exit_code": 0}), seen.append(kernel.saved_ms)))
    periodic.start()
    is_noting.wait()
    last.start()
    last.join(0.2)
    may_note.set()
    for thread in (periodic, last):
        thread.join()
    assert seen == [kernel.saved_ms]
    assert kernel.saved_ms is not None
