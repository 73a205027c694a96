"""Placement: drained agents, labels, models and pools, on two agents of different kinds."""

from datetime import datetime
from typing import Any

import pytest

from e2e_scheduling import Desk, agents_of
from e2e_sessions import until
from e2e_steering import Office

pytestmark = pytest.mark.anyio

H100, PLAIN = "eight_h100", "two_gpus"


@pytest.fixture(scope="module")
def accelerators() -> tuple[str, ...]:
    return (f"{H100}.toml", f"{PLAIN}.toml")


async def where(desk: Desk, name: str, **more: Any) -> str:
    """The agent that runs a new session."""
    session_id = await desk.running(name, **more)
    (agent,) = agents_of(await desk.view(session_id))
    return agent


async def until_drained(office: Office, agent: str) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        seen = (await office.agents())[agent]
        return seen if seen["drained"] else None

    return await until(look)


async def test_a_drained_agent_finishes_its_sessions_and_gets_no_new_ones(desk: Desk, office: Office) -> None:
    agent = (await office.agents())[H100]["id"]
    stays = await desk.running("stays", models=["*H100*"])
    await office.act("drain", agent, note="new fans")
    waiting = await desk.submit("waits", models=["*h100*"])
    assert (await desk.until_waits(waiting, "no_agent"))["waits"]["agents"] == [agent]
    assert await where(desk, "elsewhere") == PLAIN
    seen = (await office.agents())[H100]
    assert (seen["draining"], seen["drained"], seen["note"]) == (True, False, "new fans")
    desk.end("stays")
    assert (await desk.until(stays, "completed", "queued"))["state"] == "completed"
    await until_drained(office, H100)
    await office.act("resume", agent)
    await desk.until(waiting, "running")


async def test_a_drain_with_eviction_moves_sessions_to_another_agent(desk: Desk, office: Office) -> None:
    agent = (await office.agents())[PLAIN]["id"]
    moved = await desk.running("moved", preferred_models=["CUDA GPU"])
    assert agents_of(await desk.view(moved)) == [PLAIN]
    await office.act("drain", agent, evict=True)
    seen = await desk.until_seen(moved, lambda one: (one["state"], one["attempt"]) == ("running", 2))
    assert (agents_of(seen), seen["preemption"]["cause"], seen["preemption"]["by_session"]) == ([H100], "drain", None)
    await until_drained(office, PLAIN)


async def test_an_unschedulable_agent_gets_no_sessions_until_it_is_schedulable_again(
    desk: Desk, office: Office
) -> None:
    agent = (await office.agents())[PLAIN]["id"]
    await office.act("schedulable", agent, schedulable=False, note="kept for a demo")
    waiting = await desk.submit("asks", models=["CUDA*"])
    await desk.until_waits(waiting, "no_agent")
    await office.act("schedulable", agent, schedulable=True)
    await desk.until(waiting, "running")


async def test_labels_and_models_are_required_or_preferred(desk: Desk, office: Office) -> None:
    for agent, room in ((PLAIN, "warm"), (H100, "cold")):
        await office.act("label", (await office.agents())[agent]["id"], labels=[{"name": "room", "value": room}])
    warm = [{"name": "room", "value": "warm"}]
    assert await where(desk, "preferred", preferred_labels=warm) == PLAIN
    assert await where(desk, "required", labels=warm) == PLAIN
    assert await where(desk, "model", models=["nvidia h100*"]) == H100
    assert await where(desk, "settles", preferred_labels=warm, preferred_models=["CUDA GPU"]) == H100
    stuck = await desk.submit("stuck", labels=warm)
    desk.end("required")
    await desk.until(stuck, "running")


async def test_a_pool_has_agents_and_a_limit_of_its_own(desk: Desk, office: Office) -> None:
    await office.policy(pools=[{"name": "default"}, {"name": "teaching", "default_limit": 600}])
    await office.act("pool", (await office.agents())[PLAIN]["id"], pool="teaching")
    seen = await desk.view(await desk.running("lesson", pool="teaching"))
    assert (agents_of(seen), seen["pool"]) == ([PLAIN], "teaching")
    began, until_ = (datetime.fromisoformat(seen[name]) for name in ("started_at", "reserve_until"))
    assert (until_ - began).total_seconds() == 600
    assert await where(desk, "research", devices="1") == H100
    full = await desk.submit("class", pool="teaching", devices="2")
    waits = await desk.until_waits(full, "insufficient")
    assert waits["expected_start"] == seen["reserve_until"]
