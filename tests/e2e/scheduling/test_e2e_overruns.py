"""Jobs that overrun their planned time: the head of the queue still gets its devices."""

from datetime import datetime

import pytest

from aliquot.clock import SystemClock
from e2e_scheduling import Desk
from e2e_sessions import until
from e2e_steering import Office

pytestmark = pytest.mark.anyio

CLOCK = SystemClock()
LIMIT_S = 50
"""Less than the minute that an overdue session is expected to run on for."""


@pytest.fixture(scope="module")
def accelerators() -> tuple[str, ...]:
    return ("four_gpus.toml",)


def seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


async def until_overdue(desk: Desk, session_id: str) -> None:
    """Wait until a running session has passed its planned end."""

    async def look() -> bool:
        seen = await desk.view(session_id)
        assert seen["state"] == "running"
        return seconds(seen["reserve_until"]) < CLOCK.now_us() / 1e6

    await until(look)


async def test_devices_freed_while_sessions_overrun_go_to_the_head_of_the_queue(desk: Desk, office: Office) -> None:
    """The overdue session holds all that the head needs. Devices that become free still go to the head."""
    await office.policy(order="fcfs", pools=[{"name": "default", "default_limit": 1}])
    overdue = await desk.running("overdue", devices="2")
    await until_overdue(desk, overdue)
    ending = [await desk.running(f"ends-{number}", time_limit=LIMIT_S) for number in (1, 2)]
    head = await desk.submit("head", devices="2")
    waits = await desk.until_waits(head, "insufficient")
    assert waits["expected_start"] == max([(await desk.view(one))["reserve_until"] for one in ending])
    desk.end("ends-1")
    await desk.until(ending[0], "completed")
    small = await desk.submit("small", time_limit=3600)
    reserved = await desk.until_waits(small, "reserved")
    assert reserved["waits"]["blocked_by"] == [head]
    desk.end("ends-2")
    await desk.until(head, "running")
    assert (await desk.view(small))["state"] == "queued"
    assert (await desk.view(overdue))["state"] == "running"
    desk.end("overdue")
    await desk.until(small, "running")


async def test_the_head_gets_a_future_expected_start_while_all_sessions_overrun(desk: Desk, office: Office) -> None:
    await office.policy(order="fcfs", pools=[{"name": "default", "default_limit": 1}])
    holders = [await desk.running(f"holds-{number}") for number in (1, 2, 3)]
    for holder in holders:
        await until_overdue(desk, holder)
    asked_at = CLOCK.now_us() / 1e6
    head = await desk.submit("wide", devices="4")
    waits = await desk.until_waits(head, "insufficient")
    assert seconds(waits["expected_start"]) > asked_at
    small = await desk.submit("narrow", time_limit=3600)
    assert (await desk.until_waits(small, "reserved"))["waits"]["until"] is not None
    for number in (1, 2, 3):
        desk.end(f"holds-{number}")
    await desk.until(head, "running")
    assert (await desk.view(small))["state"] == "queued"
