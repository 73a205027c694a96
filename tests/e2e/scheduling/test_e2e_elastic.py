"""Elastic gangs with real workers: they start on the free GPUs, shrink instead of waiting, and grow."""

import shutil
from typing import Any, Final

import pytest

import elastic_training as training
from e2e_operator import Operator
from e2e_scheduling import SchedulingHarness

pytestmark = pytest.mark.anyio

STEPS: Final = 200


@pytest.fixture(scope="module")
def accelerators() -> tuple[str, ...]:
    return ("four_gpus.toml",)


async def start(harness: SchedulingHarness, **more: Any) -> str:
    """Submit a training of one to four workers with a GPU each."""
    folder = harness.mark("elastic")
    folder.mkdir()
    folder.chmod(0o777)
    shutil.copy(training.__file__, folder / "training.py")
    shell = f"exec python3 {folder / 'training.py'} {folder} {STEPS}"
    asked = {"checkpoint_signal": "SIGUSR1", "checkpoint_every": 1, "grace": 60, "cluster_size": 4}
    return await harness.submit_running("elastic", shell=shell, cluster_size_min=1, **asked, **more)


def sizes(harness: SchedulingHarness) -> list[tuple[int, int]]:
    """(workers, first step) of each attempt."""
    lines = (harness.mark("elastic") / "sizes").read_text().splitlines()
    return [(int(size), int(step)) for size, step in map(str.split, lines)]


async def finish(harness: SchedulingHarness, session_id: str) -> dict[str, Any]:
    (harness.mark("elastic") / "go").touch()
    seen = await harness.wait_for_state(session_id, "completed", "failed")
    assert seen["state"] == "completed", seen
    assert int((harness.mark("elastic") / "result").read_text()) == training.expected(STEPS)
    return seen


async def test_a_gang_starts_with_the_gpus_that_are_free(harness: SchedulingHarness) -> None:
    await harness.submit_running("other", devices="1")
    session_id = await start(harness)
    seen = await harness.view(session_id)
    assert [kernel["id"].rpartition(".")[2] for kernel in seen["kernels"]] == ["0", "1", "2"]
    await finish(harness, session_id)
    assert sizes(harness) == [(3, 0)]


async def test_a_gang_shrinks_for_a_session_of_higher_priority_and_goes_on_beside_it(
    harness: SchedulingHarness, operator: Operator
) -> None:
    await operator.policy(order="priority", preemption={"preempt": "preemptible", "run_min": 0})
    session_id = await start(harness, priority="low", preemptible=True)
    saved = await harness.wait_for_session(session_id, lambda seen: bool(seen["work"]) and seen["work"]["kept"] > 0)
    assert len(saved["kernels"]) == 4
    urgent = await harness.submit_running("urgent", devices="3", priority="high")
    seen = await harness.wait_for_session(session_id, lambda one: (one["state"], one["attempt"]) == ("running", 2))
    assert (len(seen["kernels"]), seen["preemption"]["by_session"]) == (1, urgent)
    assert (await harness.view(urgent))["state"] == "running"
    ended = await finish(harness, session_id)
    assert (ended["retry_count"], ended["work"]["resumed_from"] > 0) == (0, True)
    (first, _), (second, step) = sizes(harness)
    assert (first, second) == (4, 1)
    assert step > 0


async def test_a_gang_grows_back_when_there_is_room(harness: SchedulingHarness, operator: Operator) -> None:
    await operator.policy(preemption={"run_min": 0, "restart": 1})
    other = await harness.submit_running("other", devices="3")
    session_id = await start(harness)
    await harness.wait_for_session(session_id, lambda seen: bool(seen["work"]) and seen["work"]["kept"] > 0)
    harness.end("other")
    await harness.wait_for_state(other, "completed")
    seen = await harness.wait_for_session(session_id, lambda one: (one["state"], one["attempt"]) == ("running", 2))
    receipt = seen["preemption"]
    assert (len(seen["kernels"]), receipt["cause"], receipt["by_session"]) == (4, "grow", None)
    await finish(harness, session_id)
    (first, _), (second, step) = sizes(harness)
    assert (first, second) == (1, 4)
    assert step > 0
