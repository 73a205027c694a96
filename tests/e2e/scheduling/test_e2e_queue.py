"""Queue order: holds, priorities, policy changes, and predicted starts."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from aliquot.client import Refused
from e2e_operator import CHANGE_SESSION, Operator
from e2e_scheduling import SchedulingHarness
from e2e_sessions import until

pytestmark = pytest.mark.anyio

QUEUE = "{ queue(first: 50) { edges { node { session { name } } } } }"


async def until_queue(harness: SchedulingHarness, *names: str) -> None:
    """Wait until the queue has these names in this order."""
    found: list[str] = []

    async def look() -> bool:
        edges = (await harness.client.execute(QUEUE))["queue"]["edges"]
        found[:] = [edge["node"]["session"]["name"] for edge in edges]
        return found == list(names)

    try:
        await until(look)
    except TimeoutError:
        raise AssertionError(f"the queue stayed {found}") from None


async def full(harness: SchedulingHarness) -> str:
    """A session that holds all devices."""
    return await harness.submit_running("full", devices="2")


async def test_a_held_session_is_skipped_and_keeps_its_place_in_the_queue(
    harness: SchedulingHarness, operator: Operator
) -> None:
    await operator.policy(order="fcfs")
    running = await full(harness)
    first, second = await harness.submit("first", held=True), await harness.submit("second")
    assert (await harness.wait_for_reason(first, "held"))["held_by"] == (await harness.view(running))["owner"]
    with pytest.raises(Refused) as refused:
        await harness.change("hold", running)
    assert refused.value.code == "state_conflict"
    await harness.change("release", first)
    await until_queue(harness, "first", "second")
    await harness.change("hold", second)
    harness.end("full")
    await harness.wait_for_state(first, "running")
    assert (await harness.view(second))["state"] == "held"
    await harness.change("release", second)
    await harness.wait_for_state(second, "running")


async def test_a_priority_change_with_an_outdated_version_is_refused(
    harness: SchedulingHarness, operator: Operator
) -> None:
    await operator.policy(order="priority")
    await full(harness)
    await harness.submit("first")
    second = await harness.submit("second")
    await until_queue(harness, "first", "second")
    version = (await harness.view(second))["version"]
    given = {"id": second, "priority": "high", "expected_version": version + 1}
    with pytest.raises(Refused) as refused:
        await harness.client.change(CHANGE_SESSION["priority"], {"input": given})
    assert refused.value.code == "version_conflict"
    await harness.client.change(CHANGE_SESSION["priority"], {"input": {**given, "expected_version": version}})
    await until_queue(harness, "second", "first")


async def test_a_policy_change_applies_to_the_next_pass_and_is_in_the_event_log(
    harness: SchedulingHarness, operator: Operator
) -> None:
    before = (await operator.policy(order="fcfs"))["policy"]["version"]
    owner = (await harness.view(await full(harness)))["owner"]
    await harness.submit("slow", estimated_duration=7200)
    await harness.submit("quick", estimated_duration=60)
    await until_queue(harness, "slow", "quick")
    changed = await operator.policy(order="sjf", expected_version=before)
    await until_queue(harness, "quick", "slow")
    with pytest.raises(Refused) as refused:
        await operator.policy(order="fcfs", expected_version=before)
    assert refused.value.code == "version_conflict"
    with pytest.raises(Refused, match="fair_share, fcfs, gang, las, priority, relative_age, sjf, srtf") as refused:
        await operator.policy(order="whim")
    assert refused.value.code == "invalid_request"
    assert policy_events(harness)[-1] == ("policy.changed", changed["policy"]["version"], owner)


async def test_estimates_of_run_time_and_start_are_shown_with_their_reason(
    harness: SchedulingHarness, operator: Operator
) -> None:
    await operator.policy(order="fcfs")
    for number in (1, 2, 3):
        await harness.wait_for_state(await harness.submit(f"run-{number}", shell="sleep 0.1"), "completed")
    running = await harness.submit_running("holds", devices="2", time_limit=3600)
    head = await harness.submit("head", devices="2")
    again = await harness.submit("again", shell="sleep 0.1")
    seen = await harness.wait_for_session(again, lambda one: one["order_estimate"] is not None)
    explained = f"mean of {(await harness.view(again))['owner']}'s last 3 runs of sleep on 1 GPU: 1 min"
    assert seen["order_estimate"] == {"seconds": 60, "explanation": explained}
    until_ = (await harness.view(running))["reserve_until"]
    assert (await harness.wait_for_reason(head, "insufficient"))["expected_start"] == until_


def policy_events(harness: SchedulingHarness) -> list[Any]:
    """(kind, version, actor) of each policy change in the server's database."""
    path = harness.server.data_folder / "server" / "aliquot.db"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
        rows = store.execute("SELECT kind, entity_version, actor FROM events WHERE entity = 'policy' ORDER BY number")
        return rows.fetchall()
