"""Real trainings that checkpoint are preempted, killed, moved or timed out, and resume from there."""

import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

import checkpointing_training as training
from aliquot.client import Refused
from e2e_operator import Operator
from e2e_scheduling import SchedulingHarness, agents_of, scheduling_harness

pytestmark = pytest.mark.anyio

H100, PLAIN = "eight_h100", "two_gpus"
STEPS: Final = 400
LENT: Final = {"priority": "low", "preemptible": True}
STATS: Final = "query ($id: ID!) { session_stats(id: $id) { gpu_hours lost_gpu_hours credited_gpu_hours } }"
RETRY: Final = """
mutation ($id: ID!) { retry_session(input: { id: $id }, from_checkpoint: true) {
  __typename ... on RetrySessionSuccess { session { id } } ... on Error { code message } } }
"""
TORCH: Final = "/usr/bin/python3"
"""Debian's interpreter, for its package python3-torch."""


@pytest.fixture(scope="module")
async def shared_harness(
    anyio_backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[SchedulingHarness]:
    shared = str(tmp_path_factory.mktemp("shared"))
    async with scheduling_harness(
        f"{H100}.toml", f"{PLAIN}.toml", environment={"ALIQUOT_CHECKPOINT_FOLDER": shared}
    ) as harness:
        yield harness


@pytest.fixture(params=["python", "torch"])
def program(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Plain Python training, and PyTorch where Debian's package is installed (`scripts/test --long`)."""
    if request.param == "python":
        return ("python3",)
    if not os.environ.get("ALIQUOT_TESTS_LONG"):
        pytest.skip("PyTorch is tried by scripts/test --long only")
    assert subprocess.run([TORCH, "-c", "import torch"], check=False).returncode == 0, "python3-torch is not installed"
    return (TORCH, "torch")


class Trainings:
    """Trainings of one test, each with its folder."""

    def __init__(self, harness: SchedulingHarness, program: tuple[str, ...] = ("python3",)) -> None:
        self._desk = harness
        self._program = program

    async def start(self, name: str, *, until_saved: bool = True, **more: Any) -> str:
        """Submit one that checkpoints every second; wait for the first checkpoint."""
        folder = self._desk.mark(name)
        folder.mkdir()
        folder.chmod(0o777)
        shutil.copy(training.__file__, folder / "training.py")
        interpreter, *kind = self._program
        shell = " ".join([interpreter, str(folder / "training.py"), str(folder), str(STEPS), *kind])
        asked = {"checkpoint_signal": "SIGUSR1", "checkpoint_every": 1, "grace": 3600, **more}
        session_id = await self._desk.submit_running(name, shell=f"exec {shell}", **asked)
        if until_saved:
            await self.until_kept(session_id)
        return session_id

    async def until_kept(self, session_id: str) -> dict[str, Any]:
        """Wait until a checkpoint was acknowledged."""
        return await self._desk.wait_for_session(
            session_id, lambda seen: bool(seen["work"]) and seen["work"]["kept"] > 0
        )

    def numbers(self, name: str, what: str) -> list[int]:
        """The steps at which it started, or saved."""
        return [int(line) for line in (self._desk.mark(name) / what).read_text().split()]

    async def finish(self, name: str, session_id: str) -> dict[str, Any]:
        """Let it end, and compare its result with an uninterrupted training."""
        self.let(name)
        seen = await self._desk.wait_for_state(session_id, "completed", "failed")
        assert seen["state"] == "completed", seen
        result = (self._desk.mark(name) / "result").read_text().strip()
        assert result == self._expected()
        return seen

    def let(self, name: str) -> None:
        (self._desk.mark(name) / "go").touch()

    def _expected(self) -> str:
        if "torch" not in self._program:
            return training.expected(STEPS, training.Plain())
        code = f"import checkpointing_training as t; print(t.expected({STEPS}, t.Torch()))"
        place = Path(training.__file__).parent
        return subprocess.run([TORCH, "-c", code], cwd=place, check=True, capture_output=True, text=True).stdout.strip()


async def test_a_preempted_training_loses_nothing_beyond_its_last_checkpoint(
    harness: SchedulingHarness, operator: Operator, program: tuple[str, ...]
) -> None:
    await operator.policy(order="priority", preemption={"preempt": "preemptible", "run_min": 0})
    trainings = Trainings(harness, program)
    victim = await trainings.start("victim", devices="8", **LENT)
    urgent = await harness.submit_running("urgent", devices="8", priority="high")
    seen = await harness.wait_for_state(victim, "queued")
    work, lost = seen["work"], seen["preemption"]["lost_gpu_seconds"]
    assert seen["preemption"]["by_session"] == urgent, "it held its GPUs for the whole grace of an hour"
    assert (work["lost_gpu_seconds"], work["note"], work["saved_at"] is not None) == (lost, None, True)
    assert 0 <= work["credited_gpu_seconds"] <= lost
    stats = (await harness.client.execute(STATS, {"id": victim}))["session_stats"]
    assert stats["lost_gpu_hours"] == pytest.approx(lost / 3600, abs=1e-4)
    assert stats["lost_gpu_hours"] < stats["gpu_hours"], "all of its work counts as lost"
    harness.end("urgent")
    seen = await harness.wait_for_state(victim, "running", "completed")
    ended = await trainings.finish("victim", victim)
    assert (ended["attempt"], ended["retry_count"], ended["work"]["resumed_from"]) == (2, 0, work["kept"])
    began, saved = trainings.numbers("victim", "began"), trainings.numbers("victim", "saved")
    assert (began[0], len(began)) == (0, 2)
    assert began[1] in saved
    course = await harness.updates_of(victim, last="session.completed")
    kinds = [one["kind"].removeprefix("session.") for one in course]
    assert kinds.index("checkpointed") < kinds.index("preempting") < kinds.index("requeued") < kinds.index("resumed")


async def test_a_killed_training_goes_on_from_its_last_checkpoint(
    harness: SchedulingHarness, program: tuple[str, ...]
) -> None:
    trainings = Trainings(harness, program)
    session_id = await trainings.start("killed", checkpoint_signal="SIGUSR1")
    await trainings.until_kept(session_id)
    (kernel,) = (await harness.view(session_id))["kernels"]
    os.kill(shim_of(kernel["id"]), signal.SIGKILL)
    seen = await harness.wait_for_session(
        session_id, lambda seen: seen["attempt"] == 2 and seen["work"]["resumed_from"] > 0
    )
    assert seen["work"]["lost_gpu_seconds"] >= seen["work"]["credited_gpu_seconds"] >= 0
    await trainings.finish("killed", session_id)
    began, saved = trainings.numbers("killed", "began"), trainings.numbers("killed", "saved")
    assert len(began) == 2
    assert began[1] in saved


async def test_a_training_on_a_drained_agent_resumes_on_another_agent(
    harness: SchedulingHarness, operator: Operator
) -> None:
    trainings = Trainings(harness)
    moved = await trainings.start("moved", preferred_models=["CUDA GPU"], **LENT)
    agents = await operator.agents()
    assert agents_of(await harness.view(moved)) == [PLAIN]
    await operator.change_agent("drain", agents[PLAIN]["id"], evict=True)
    seen = await harness.wait_for_session(moved, lambda one: one["attempt"] == 2 and one["work"]["resumed_from"] > 0)
    assert (agents_of(seen), seen["work"]["note"]) == ([H100], None)
    await trainings.finish("moved", moved)
    assert trainings.numbers("moved", "began")[1] in trainings.numbers("moved", "saved")


async def test_a_training_stopped_at_its_limit_is_retried_from_its_checkpoint(harness: SchedulingHarness) -> None:
    trainings = Trainings(harness)
    asked = {"checkpoint_every": None, "time_limit": 6, "grace": 2}
    session_id = await trainings.start("limited", until_saved=False, **asked)
    failed = await harness.wait_for_state(session_id, "failed", "completed")
    assert (failed["failure"]["code"], failed["work"]["kept"] > 0) == ("time_limit", True)
    await harness.client.change(RETRY, {"id": session_id})
    seen = await harness.wait_for_session(
        session_id, lambda one: one["attempt"] == 2 and one["work"]["resumed_from"] > 0
    )
    assert seen["work"]["resumed_from"] == failed["work"]["kept"]
    await trainings.finish("limited", session_id)
    assert trainings.numbers("limited", "began") == [0, trainings.numbers("limited", "saved")[0]]


async def test_a_retry_from_a_checkpoint_is_refused_without_one(harness: SchedulingHarness) -> None:
    session_id = await harness.submit("plain", shell="exit 3")
    await harness.wait_for_state(session_id, "failed")
    with pytest.raises(Refused, match="it has acknowledged no checkpoint"):
        await harness.client.change(RETRY, {"id": session_id})


def shim_of(kernel_id: str) -> int:
    """Pid of the shim of a kernel."""
    found = subprocess.run(
        ["grep", "-lsz", f"^ALIQUOT_ATTEMPT={kernel_id}$", *map(str, Path("/proc").glob("[0-9]*/environ"))],
        check=False,
        capture_output=True,
        text=True,
    )
    job = min(int(path.split("/")[2]) for path in found.stdout.split())
    return int(Path(f"/proc/{job}/stat").read_text().rpartition(") ")[2].split()[1])
