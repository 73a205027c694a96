"""Spot nodes and switches, with real agents: their labels, eviction notices, and the sessions there."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from aliquot.cli.acceptance.processes import OwnAgent
from aliquot.client import Refused
from e2e_sessions import submit, until
from remote_cluster import Cluster, cluster

pytestmark = pytest.mark.anyio

GANG = {"cluster_size": 2, "topology": "require", "preemptible": True}
AGENT = "query ($id: String!) { agent(agent_id: $id) { eviction draining labels { name value } } }"
SESSION = """
query ($id: ID!) {
  session(id: $id) {
    state attempt retry_count preemptions topology waits { reason message agents } preemption { cause by_user }
    kernels { agent_id }
  }
}
"""
SAVES = "trap 'echo saved >> {marks}/{name}' USR1; echo run >> {marks}/{name}; while :; do sleep 0.05; done"


async def agent_of(on: Cluster, agent_id: str) -> dict[str, Any]:
    return dict((await on.client.execute(AGENT, {"id": agent_id}))["agent"])


async def seen(on: Cluster, session_id: str) -> dict[str, Any]:
    return dict((await on.client.execute(SESSION, {"id": session_id}))["session"])


async def until_on(on: Cluster, session_id: str, agent_id: str, *, attempt: int) -> dict[str, Any]:
    """Wait until an attempt runs on an agent."""

    async def look() -> dict[str, Any] | None:
        found = await seen(on, session_id)
        runs = (found["state"], found["attempt"]) == ("running", attempt)
        return found if runs and {one["agent_id"] for one in found["kernels"]} == {agent_id} else None

    try:
        return await until(look)
    except TimeoutError:
        raise AssertionError(f"it stayed {await seen(on, session_id)}") from None


async def until_waits(on: Cluster, session_id: str) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        return (await seen(on, session_id))["waits"]

    return await until(look)


def noted(path: Path) -> list[str]:
    """The notes of a session."""
    return path.read_text().split() if path.exists() else []


async def until_noted(path: Path) -> None:
    async def look() -> bool:
        return bool(noted(path))

    await until(look)


async def until_eviction(on: Cluster, agent_id: str, reason: str | None) -> None:
    async def look() -> bool:
        return (await agent_of(on, agent_id))["eviction"] == reason

    await until(look)


async def agent(on: Cluster, number: int, labels: str, **environment: str) -> OwnAgent:
    """Start an agent with eight mock GPUs and its own labels."""
    made = OwnAgent(
        on.server, f"demo-{number}", "--demo-node", str(number), "--labels", labels, environment=environment
    )
    on.agents.append(made)
    await made.start()
    await on.until_agent("alive", made.id)
    return made


async def test_sessions_leave_a_spot_node_before_it_goes_and_gangs_stay_on_a_switch(tmp_path: Path) -> None:
    notice = tmp_path / "notice"
    async with cluster() as on:
        marks = on.server.folder / "marks"
        spot = await agent(on, 1, "switch=s1,spot=true")
        assert {"name": "spot", "value": "true"} in (await agent_of(on, "demo-1"))["labels"]
        with pytest.raises(Refused, match="only demo-1 can run this, on spot nodes"):
            await submit(on.client, "true", {"cuda.device": "1"})
        saves = SAVES.format(marks=marks, name="moves")
        moves = await submit(
            on.client, saves, {"cuda.device": "1"}, preemptible=True, checkpoint_signal="SIGUSR1", grace=1
        )
        await until_on(on, moves, "demo-1", attempt=1)
        await until_noted(marks / "moves")

        polled = await agent(on, 2, "switch=s2", ALIQUOT_EVICTION_COMMAND=f"cat {notice}")
        with pytest.raises(Refused, match="topology: require keeps all 2 kernels on one switch"):
            await submit(on.client, "true", {"cuda.device": "8"}, **GANG)
        os.kill(spot.pid, signal.SIGUSR1)
        found = await until_on(on, moves, "demo-2", attempt=2)
        assert (found["retry_count"], found["preemptions"], found["preemption"]["cause"]) == (0, 1, "eviction")
        assert noted(marks / "moves")[:2] == ["run", "saved"]
        assert (await agent_of(on, "demo-1"))["eviction"] == "signal SIGUSR1"
        waiting = await submit(on.client, "sleep 600", {"cuda.device": "8"}, preemptible=True, priority="low")
        assert (await until_waits(on, waiting))["reason"] == "insufficient"

        notice.write_text("back in two minutes\n")
        await until_eviction(on, "demo-2", "back in two minutes")
        waits = await until_waits(on, moves)
        assert waits["reason"] == "cluster_unavailable"
        assert "About to be taken away: demo-1 (signal SIGUSR1), demo-2 (back in two minutes)." in waits["message"]
        notice.unlink()
        await until_eviction(on, "demo-2", None)
        await until_on(on, moves, "demo-2", attempt=3)
        await on.client.execute(
            "mutation ($id: ID!) { cancel_session(input: { id: $id }) { __typename } }", {"id": moves}
        )
        await until_on(on, waiting, "demo-2", attempt=1)
        assert polled.log().count("Traceback") == spot.log().count("Traceback") == 0
