"""Placement: drained agents, labels, models and pools, on two agents of different kinds."""

from datetime import datetime
from typing import Any

import pytest

from e2e_operator import Operator
from e2e_scheduling import SchedulingHarness, agents_of
from e2e_sessions import until

pytestmark = pytest.mark.anyio

H100, PLAIN = "eight_h100", "two_gpus"


@pytest.fixture(scope="module")
def accelerators() -> tuple[str, ...]:
    return (f"{H100}.toml", f"{PLAIN}.toml")


async def where(harness: SchedulingHarness, name: str, **more: Any) -> str:
    """The agent that runs a new session."""
    session_id = await harness.submit_running(name, **more)
    (agent,) = agents_of(await harness.view(session_id))
    return agent


async def until_drained(operator: Operator, agent: str) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        seen = (await operator.agents())[agent]
        return seen if seen["drained"] else None

    return await until(look)


async def test_a_drained_agent_finishes_its_sessions_and_gets_no_new_ones(
    harness: SchedulingHarness, operator: Operator
) -> None:
    agent = (await operator.agents())[H100]["id"]
    stays = await harness.submit_running("stays", models=["*H100*"])
    await operator.change_agent("drain", agent, note="new fans")
    waiting = await harness.submit("waits", models=["*h100*"])
    assert (await harness.wait_for_reason(waiting, "no_agent"))["waits"]["agents"] == [agent]
    assert await where(harness, "elsewhere") == PLAIN
    seen = (await operator.agents())[H100]
    assert (seen["draining"], seen["drained"], seen["note"]) == (True, False, "new fans")
    harness.end("stays")
    assert (await harness.wait_for_state(stays, "completed", "queued"))["state"] == "completed"
    await until_drained(operator, H100)
    await operator.change_agent("resume", agent)
    await harness.wait_for_state(waiting, "running")


async def test_a_drain_with_eviction_moves_sessions_to_another_agent(
    harness: SchedulingHarness, operator: Operator
) -> None:
    agent = (await operator.agents())[PLAIN]["id"]
    moved = await harness.submit_running("moved", preferred_models=["CUDA GPU"])
    assert agents_of(await harness.view(moved)) == [PLAIN]
    await operator.change_agent("drain", agent, evict=True)
    seen = await harness.wait_for_session(moved, lambda one: (one["state"], one["attempt"]) == ("running", 2))
    assert (agents_of(seen), seen["preemption"]["cause"], seen["preemption"]["by_session"]) == ([H100], "drain", None)
    await until_drained(operator, PLAIN)


async def test_an_unschedulable_agent_gets_no_sessions_until_it_is_schedulable_again(
    harness: SchedulingHarness, operator: Operator
) -> None:
    agent = (await operator.agents())[PLAIN]["id"]
    await operator.change_agent("schedulable", agent, schedulable=False, note="kept for a demo")
    waiting = await harness.submit("asks", models=["CUDA*"])
    await harness.wait_for_reason(waiting, "no_agent")
    await operator.change_agent("schedulable", agent, schedulable=True)
    await harness.wait_for_state(waiting, "running")


async def test_labels_and_models_are_required_or_preferred(harness: SchedulingHarness, operator: Operator) -> None:
    for agent, room in ((PLAIN, "warm"), (H100, "cold")):
        await operator.change_agent(
            "label", (await operator.agents())[agent]["id"], labels=[{"name": "room", "value": room}]
        )
    warm = [{"name": "room", "value": "warm"}]
    assert await where(harness, "preferred", preferred_labels=warm) == PLAIN
    assert await where(harness, "required", labels=warm) == PLAIN
    assert await where(harness, "model", models=["nvidia h100*"]) == H100
    assert await where(harness, "settles", preferred_labels=warm, preferred_models=["CUDA GPU"]) == H100
    stuck = await harness.submit("stuck", labels=warm)
    harness.end("required")
    await harness.wait_for_state(stuck, "running")


async def test_a_pool_has_agents_and_a_limit_of_its_own(harness: SchedulingHarness, operator: Operator) -> None:
    await operator.policy(pools=[{"name": "default"}, {"name": "teaching", "default_limit": 600}])
    await operator.change_agent("pool", (await operator.agents())[PLAIN]["id"], pool="teaching")
    seen = await harness.view(await harness.submit_running("lesson", pool="teaching"))
    assert (agents_of(seen), seen["pool"]) == ([PLAIN], "teaching")
    began, until_ = (datetime.fromisoformat(seen[name]) for name in ("started_at", "reserve_until"))
    assert (until_ - began).total_seconds() == 600
    assert await where(harness, "research", devices="1") == H100
    full = await harness.submit("class", pool="teaching", devices="2")
    waits = await harness.wait_for_reason(full, "insufficient")
    assert waits["expected_start"] == seen["reserve_until"]
