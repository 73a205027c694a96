"""Job arrays: the parallelism limit, and cancel, wait and retry of one index and of the whole."""

from collections.abc import Sequence
from typing import Any

import pytest

from aliquot.client import Refused
from e2e_operator import Operator
from e2e_scheduling import SchedulingHarness
from e2e_sessions import submit

pytestmark = pytest.mark.anyio

HOLDING = frozenset({"scheduled", "allocating", "running", "preempting"})


@pytest.fixture(scope="module")
def accelerators() -> tuple[str, ...]:
    return ("eight_h100.toml",)


def by_index(harness: SchedulingHarness, name: str) -> str:
    """Each task ends by a file of its own."""
    return f"index=$ALIQUOT_ARRAY_INDEX; {harness.wait_for_end_command(f'{name}-$index')}"


async def until_tasks(harness: SchedulingHarness, array: str, **indices: str) -> dict[str, Any]:
    """Wait until the task counts match."""
    return await harness.wait_for_session(
        array, lambda seen: all(seen["tasks"][place]["indices"] == which for place, which in indices.items())
    )


def most_at_once(course: Sequence[dict[str, Any]], array: str) -> int:
    """Most tasks that held devices together."""
    held: set[str] = set()
    most = 0
    for session in (one["session"] for one in course if one["session"]["array_id"] == array):
        held = held | {session["id"]} if session["state"] in HOLDING else held - {session["id"]}
        most = max(most, len(held))
    return most


async def test_single_array_tasks_can_be_waited_for_canceled_and_retried(harness: SchedulingHarness) -> None:
    array = await harness.submit("one", shell=by_index(harness, "one"), array="0-3", max_parallel=2)
    await until_tasks(harness, array, active="0-1", waiting="2-3")
    follower = await harness.submit("follower", shell="true", depends_on=[{"session_id": f"{array}_1"}])
    await harness.change("cancel", f"{array}_3")
    harness.end("one-1")
    await harness.wait_for_state(follower, "completed")
    await until_tasks(harness, array, active="0,2", canceled="3", completed="1")
    harness.end("one-0", code=3)
    harness.end("one-2")
    failed = await harness.wait_for_state(array, "failed", "completed", "canceled")
    assert (failed["state"], failed["failure"]["message"]) == ("failed", "1 of 4 tasks failed: 0")
    harness.end("one-0", code=0)
    await harness.change("retry", f"{array}_0")
    await until_tasks(harness, array, completed="0-2", canceled="3", failed="")
    assert (await harness.view(f"{array}_0"))["attempt"] == 2
    harness.end("one-3")
    await harness.change("retry", array)
    await harness.wait_for_state(array, "completed")


async def test_a_retried_array_keeps_to_max_parallel_and_can_be_canceled(harness: SchedulingHarness) -> None:
    names = [f"all-{index}" for index in range(5)]
    for name in names:
        harness.end(name, code=1)
    array = await harness.submit("all", shell=by_index(harness, "all"), array="0-4", max_parallel=2)
    await harness.wait_for_state(array, "failed")
    for name in names:
        harness.mark(name).unlink()
    await harness.change("retry", array)
    await until_tasks(harness, array, active="0-1", waiting="2-4")
    waiting = await harness.wait_for_reason(f"{array}_4", "array_limit")
    assert (waiting["state"], waiting["held_by"]) == ("held", "system:array")
    for name in names[:2]:
        harness.end(name)
    await until_tasks(harness, array, active="2-3", completed="0-1")
    await harness.change("cancel", array)
    course = await harness.updates_until(
        after=0, wanted=lambda one: one["session"]["id"] == array and one["kind"].endswith("canceled")
    )
    assert most_at_once(course, array) == 2
    for index in (2, 3, 4):
        assert (await harness.view(f"{array}_{index}"))["state"] == "canceled"
    seen = await harness.view(array)
    assert (seen["state"], seen["tasks"]["completed"]["indices"]) == ("canceled", "0-1")


async def test_quotas_count_array_tasks_and_refuse_arrays_that_could_never_start(
    harness: SchedulingHarness, operator: Operator
) -> None:
    await operator.quota("project", "small", max_queued=3, max_slots={"cuda.device": "2", "cpu": "0"})
    for asked, says in (
        ({"array": "0-3"}, "may have at most 3 waiting tasks, and 4 would wait"),
        ({"devices": "3"}, "may hold at most 2 GPUs, and this session needs 3 GPUs"),
        ({"cluster_size": 3}, "may hold at most 2 GPUs, and this session needs 3 GPUs"),
    ):
        with pytest.raises(Refused, match=says) as refused:
            await harness.submit("refused", project="small", **asked)
        assert refused.value.code == "quota_exceeded"
    with pytest.raises(Refused, match="may hold at most 0 cores"):
        await submit(harness.client, "true", {"cpu": "1"}, project="small")
    array = await harness.submit("kept", shell=by_index(harness, "kept"), project="small", array="0-2")
    await until_tasks(harness, array, active="0-1", waiting="2")
    assert "quota" in (await harness.wait_for_reason(array, "quota"))["waits"]["message"]
    harness.end("kept-0")
    await until_tasks(harness, array, active="1-2", completed="0")
    await harness.change("cancel", f"{array}_1")
    await until_tasks(harness, array, active="2", completed="0", canceled="1")
