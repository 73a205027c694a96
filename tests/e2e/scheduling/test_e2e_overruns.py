"""Jobs that overrun their planned time: the head of the queue still gets its devices."""

from datetime import datetime

import pytest

from aliquot.clock import SystemClock
from e2e_operator import Operator
from e2e_scheduling import SchedulingHarness
from e2e_sessions import until

pytestmark = pytest.mark.anyio

CLOCK = SystemClock()
LIMIT_S = 50
"""Less than the minute that an overdue session is expected to run on for."""


@pytest.fixture(scope="module")
def accelerators() -> tuple[str, ...]:
    return ("four_gpus.toml",)


def seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


async def until_overdue(harness: SchedulingHarness, session_id: str) -> None:
    """Wait until a running session has passed its planned end."""

    async def look() -> bool:
        seen = await harness.view(session_id)
        assert seen["state"] == "running"
        return seconds(seen["reserve_until"]) < CLOCK.now_us() / 1e6

    await until(look)


async def test_devices_freed_while_sessions_overrun_go_to_the_head_of_the_queue(
    harness: SchedulingHarness, operator: Operator
) -> None:
    """The overdue session holds all that the head needs. Devices that become free still go to the head."""
    await operator.policy(order="fcfs", pools=[{"name": "default", "default_limit": 1}])
    overdue = await harness.submit_running("overdue", devices="2")
    await until_overdue(harness, overdue)
    ending = [await harness.submit_running(f"ends-{number}", time_limit=LIMIT_S) for number in (1, 2)]
    head = await harness.submit("head", devices="2")
    waits = await harness.wait_for_reason(head, "insufficient")
    assert waits["expected_start"] == max([(await harness.view(one))["reserve_until"] for one in ending])
    harness.end("ends-1")
    await harness.wait_for_state(ending[0], "completed")
    small = await harness.submit("small", time_limit=3600)
    reserved = await harness.wait_for_reason(small, "reserved")
    assert reserved["waits"]["blocked_by"] == [head]
    harness.end("ends-2")
    await harness.wait_for_state(head, "running")
    assert (await harness.view(small))["state"] == "queued"
    assert (await harness.view(overdue))["state"] == "running"
    harness.end("overdue")
    await harness.wait_for_state(small, "running")


async def test_the_head_gets_a_future_expected_start_while_all_sessions_overrun(
    harness: SchedulingHarness, operator: Operator
) -> None:
    await operator.policy(order="fcfs", pools=[{"name": "default", "default_limit": 1}])
    holders = [await harness.submit_running(f"holds-{number}") for number in (1, 2, 3)]
    for holder in holders:
        await until_overdue(harness, holder)
    asked_at = CLOCK.now_us() / 1e6
    head = await harness.submit("wide", devices="4")
    waits = await harness.wait_for_reason(head, "insufficient")
    assert seconds(waits["expected_start"]) > asked_at
    small = await harness.submit("narrow", time_limit=3600)
    assert (await harness.wait_for_reason(small, "reserved"))["waits"]["until"] is not None
    for number in (1, 2, 3):
        harness.end(f"holds-{number}")
    await harness.wait_for_state(head, "running")
    assert (await harness.view(small))["state"] == "queued"
