"""Job arrays: the parallelism limit, and cancel, wait and retry of one index and of the whole."""

from collections.abc import Sequence
from typing import Any

import pytest

from aliquot.client import Refused
from e2e_scheduling import Desk
from e2e_sessions import submit
from e2e_steering import Office

pytestmark = pytest.mark.anyio

HOLDING = frozenset({"scheduled", "allocating", "running", "preempting"})


@pytest.fixture(scope="module")
def accelerators() -> tuple[str, ...]:
    return ("eight_h100.toml",)


def by_index(desk: Desk, name: str) -> str:
    """Each task ends by a file of its own."""
    return f"index=$ALIQUOT_ARRAY_INDEX; {desk.told(f'{name}-$index')}"


async def until_tasks(desk: Desk, array: str, **indices: str) -> dict[str, Any]:
    """Wait until the task counts match."""
    return await desk.until_seen(
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


async def test_single_array_tasks_can_be_waited_for_canceled_and_retried(desk: Desk) -> None:
    array = await desk.submit("one", shell=by_index(desk, "one"), array="0-3", max_parallel=2)
    await until_tasks(desk, array, active="0-1", waiting="2-3")
    follower = await desk.submit("follower", shell="true", depends_on=[{"session_id": f"{array}_1"}])
    await desk.change("cancel", f"{array}_3")
    desk.end("one-1")
    await desk.until(follower, "completed")
    await until_tasks(desk, array, active="0,2", canceled="3", completed="1")
    desk.end("one-0", code=3)
    desk.end("one-2")
    failed = await desk.until(array, "failed", "completed", "canceled")
    assert (failed["state"], failed["failure"]["message"]) == ("failed", "1 of 4 tasks failed: 0")
    desk.end("one-0", code=0)
    await desk.change("retry", f"{array}_0")
    await until_tasks(desk, array, completed="0-2", canceled="3", failed="")
    assert (await desk.view(f"{array}_0"))["attempt"] == 2
    desk.end("one-3")
    await desk.change("retry", array)
    await desk.until(array, "completed")


async def test_a_retried_array_keeps_to_max_parallel_and_can_be_canceled(desk: Desk) -> None:
    names = [f"all-{index}" for index in range(5)]
    for name in names:
        desk.end(name, code=1)
    array = await desk.submit("all", shell=by_index(desk, "all"), array="0-4", max_parallel=2)
    await desk.until(array, "failed")
    for name in names:
        desk.mark(name).unlink()
    await desk.change("retry", array)
    await until_tasks(desk, array, active="0-1", waiting="2-4")
    waiting = await desk.until_waits(f"{array}_4", "array_limit")
    assert (waiting["state"], waiting["held_by"]) == ("held", "system:array")
    for name in names[:2]:
        desk.end(name)
    await until_tasks(desk, array, active="2-3", completed="0-1")
    await desk.change("cancel", array)
    course = await desk.course(
        after=0, wanted=lambda one: one["session"]["id"] == array and one["kind"].endswith("canceled")
    )
    assert most_at_once(course, array) == 2
    for index in (2, 3, 4):
        assert (await desk.view(f"{array}_{index}"))["state"] == "canceled"
    seen = await desk.view(array)
    assert (seen["state"], seen["tasks"]["completed"]["indices"]) == ("canceled", "0-1")


async def test_quotas_count_array_tasks_and_refuse_arrays_that_could_never_start(desk: Desk, office: Office) -> None:
    await office.quota("project", "small", max_queued=3, max_slots={"cuda.device": "2", "cpu": "0"})
    for asked, says in (
        ({"array": "0-3"}, "may have at most 3 waiting tasks, and 4 would wait"),
        ({"devices": "3"}, "may hold at most 2 GPUs, and this session needs 3 GPUs"),
        ({"cluster_size": 3}, "may hold at most 2 GPUs, and this session needs 3 GPUs"),
    ):
        with pytest.raises(Refused, match=says) as refused:
            await desk.submit("refused", project="small", **asked)
        assert refused.value.code == "quota_exceeded"
    with pytest.raises(Refused, match="may hold at most 0 cores"):
        await submit(desk.client, "true", {"cpu": "1"}, project="small")
    array = await desk.submit("kept", shell=by_index(desk, "kept"), project="small", array="0-2")
    await until_tasks(desk, array, active="0-1", waiting="2")
    assert "quota" in (await desk.until_waits(array, "quota"))["waits"]["message"]
    desk.end("kept-0")
    await until_tasks(desk, array, active="1-2", completed="0")
    await desk.change("cancel", f"{array}_1")
    await until_tasks(desk, array, active="2", completed="0", canceled="1")
