"""Queue order: holds, priorities, policy changes, and predicted starts."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from aliquot.client import Refused
from e2e_scheduling import Desk
from e2e_sessions import until
from e2e_steering import CHANGE_SESSION, Office

pytestmark = pytest.mark.anyio

QUEUE = "{ queue(first: 50) { edges { node { session { name } } } } }"


async def until_queue(desk: Desk, *names: str) -> None:
    """Wait until the queue has these names in this order."""
    found: list[str] = []

    async def look() -> bool:
        edges = (await desk.client.execute(QUEUE))["queue"]["edges"]
        found[:] = [edge["node"]["session"]["name"] for edge in edges]
        return found == list(names)

    try:
        await until(look)
    except TimeoutError:
        raise AssertionError(f"the queue stayed {found}") from None


async def full(desk: Desk) -> str:
    """A session that holds all devices."""
    return await desk.running("full", devices="2")


async def test_a_held_session_is_skipped_and_keeps_its_place_in_the_queue(desk: Desk, office: Office) -> None:
    await office.policy(order="fcfs")
    running = await full(desk)
    first, second = await desk.submit("first", held=True), await desk.submit("second")
    assert (await desk.until_waits(first, "held"))["held_by"] == (await desk.view(running))["owner"]
    with pytest.raises(Refused) as refused:
        await desk.change("hold", running)
    assert refused.value.code == "state_conflict"
    await desk.change("release", first)
    await until_queue(desk, "first", "second")
    await desk.change("hold", second)
    desk.end("full")
    await desk.until(first, "running")
    assert (await desk.view(second))["state"] == "held"
    await desk.change("release", second)
    await desk.until(second, "running")


async def test_a_priority_change_with_an_outdated_version_is_refused(desk: Desk, office: Office) -> None:
    await office.policy(order="priority")
    await full(desk)
    await desk.submit("first")
    second = await desk.submit("second")
    await until_queue(desk, "first", "second")
    version = (await desk.view(second))["version"]
    given = {"id": second, "priority": "high", "expected_version": version + 1}
    with pytest.raises(Refused) as refused:
        await desk.client.change(CHANGE_SESSION["priority"], {"input": given})
    assert refused.value.code == "version_conflict"
    await desk.client.change(CHANGE_SESSION["priority"], {"input": {**given, "expected_version": version}})
    await until_queue(desk, "second", "first")


async def test_a_policy_change_applies_to_the_next_pass_and_is_in_the_event_log(desk: Desk, office: Office) -> None:
    before = (await office.policy(order="fcfs"))["policy"]["version"]
    owner = (await desk.view(await full(desk)))["owner"]
    await desk.submit("slow", estimated_duration=7200)
    await desk.submit("quick", estimated_duration=60)
    await until_queue(desk, "slow", "quick")
    changed = await office.policy(order="sjf", expected_version=before)
    await until_queue(desk, "quick", "slow")
    with pytest.raises(Refused) as refused:
        await office.policy(order="fcfs", expected_version=before)
    assert refused.value.code == "version_conflict"
    with pytest.raises(Refused, match="fair_share, fcfs, gang, las, priority, relative_age, sjf, srtf") as refused:
        await office.policy(order="whim")
    assert refused.value.code == "invalid_request"
    assert policy_events(desk)[-1] == ("policy.changed", changed["policy"]["version"], owner)


async def test_estimates_of_run_time_and_start_are_shown_with_their_reason(desk: Desk, office: Office) -> None:
    await office.policy(order="fcfs")
    for number in (1, 2, 3):
        await desk.until(await desk.submit(f"run-{number}", shell="sleep 0.1"), "completed")
    running = await desk.running("holds", devices="2", time_limit=3600)
    head = await desk.submit("head", devices="2")
    again = await desk.submit("again", shell="sleep 0.1")
    seen = await desk.until_seen(again, lambda one: one["order_estimate"] is not None)
    explained = f"mean of {(await desk.view(again))['owner']}'s last 3 runs of sleep on 1 GPU: 1 min"
    assert seen["order_estimate"] == {"seconds": 60, "explanation": explained}
    until_ = (await desk.view(running))["reserve_until"]
    assert (await desk.until_waits(head, "insufficient"))["expected_start"] == until_


def policy_events(desk: Desk) -> list[Any]:
    """(kind, version, actor) of each policy change in the server's database."""
    path = desk.server.data_folder / "server" / "aliquot.db"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
        rows = store.execute("SELECT kind, entity_version, actor FROM events WHERE entity = 'policy' ORDER BY number")
        return rows.fetchall()
