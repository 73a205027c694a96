"""Real servers on a node with two mock GPUs, shared or divided by two agents in every way."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from aliquot.cli.acceptance.processes import OwnAgent, OwnServer, ServerFailed
from aliquot.client import Client
from e2e_sessions import session, submit, until, until_state

pytestmark = pytest.mark.anyio

TWO_GPUS: Final = str(Path(__file__).parents[1] / "data" / "accelerators" / "two_gpus.toml")
FIRST: Final = "c59395cd-ac91-4cd3-a1b0-3d2568aa2d01"
SECOND: Final = "c59395cd-ac91-4cd3-a1b0-3d2568aa2d02"

SHARED: Final = """
[[agents]]
id = "agent-1"
[[agents]]
id = "agent-2"
"""
SPLIT: Final = '[resource]\nallocation-mode = "auto-split"\n' + SHARED + '[[agents]]\nid = "agent-3"\n'
MANUAL: Final = """
[resource]
allocation-mode = "manual"
[[agents]]
id = "agent-1"
[agents.resource.allocations]
mem = "64m"
[agents.resource.allocations.devices]
cuda = ["cuda1"]
[[agents]]
id = "agent-2"
"""
AGENTS: Final = """
{ agents { edges { node {
  id node_id allocation_mode gpu_alloc_map
  scaling_factors { slot amount }
  devices { id kind capacity used free parent_id holders { agent_id share } }
} } } }
"""
CHECKS_ITS_OWN: Final = (
    f'case "$ALIQUOT_AGENT_ID $CUDA_VISIBLE_DEVICES" in "agent-1 {FIRST}"|"agent-2 {SECOND}") exit 0;; *) exit 3;; esac'
)


async def test_agents_that_share_gpus_never_grant_a_gpu_twice(tmp_path: Path) -> None:
    async with divided(tmp_path, SHARED, agents=2) as (_, client):
        ids = [await submit(client, "exec sleep 600", {"cuda.shares": "0.5"}) for _ in range(5)]
        for session_id in ids[:4]:
            await until_state(client, session_id, "running")
        assert await until_waits(client, ids[4]) == "insufficient"
        agents = await agents_of(client)
        assert len({agent["node_id"] for agent in agents.values()}) == 1
        assert {agent["allocation_mode"] for agent in agents.values()} == {"shared"}
        assert all(factors(agent)["cuda.device"] == "1" for agent in agents.values())
        maps = [json.loads(agent["gpu_alloc_map"]) for agent in agents.values()]
        assert maps == [{FIRST: "1.00", SECOND: "1.00"}] * 2
        for agent in agents.values():
            assert {gpu["id"]: (gpu["used"], gpu["free"]) for gpu in gpus(agent)} == {
                FIRST: ("1.00", "0.00"),
                SECOND: ("1.00", "0.00"),
            }
            assert sorted(len(gpu["holders"]) for gpu in gpus(agent)) == [2, 2]
        assert await capacity(client) == {
            "cuda.device": ("2.00", "0.00", "2.00"),
            "cuda.shares": ("2.00", "0.00", "2.00"),
        }


async def test_auto_split_gives_two_agents_a_gpu_each_and_a_third_agent_none(tmp_path: Path) -> None:
    async with divided(tmp_path, SPLIT, agents=3) as (_, client):
        agents = await agents_of(client)
        assert {name: json.loads(agent["gpu_alloc_map"]) for name, agent in agents.items()} == {
            "agent-1": {FIRST: "0.00"},
            "agent-2": {SECOND: "0.00"},
            "agent-3": {},
        }
        assert [factors(agent)["cuda.device"] for agent in agents.values()] == ["0.5", "0.5", "0"]
        pools = [device for agent in agents.values() for device in agent["devices"] if device["kind"] == "mem"]
        assert [pool["id"] for pool in pools] == ["mem0/agent-1", "mem0/agent-2", "mem0/agent-3"]
        assert {pool["parent_id"] for pool in pools} == {"mem0"}
        cpus = [device["id"] for agent in agents.values() for device in agent["devices"] if device["kind"] == "cpu"]
        assert len(set(cpus)) == len(cpus) > 0
        ids = [await submit(client, CHECKS_ITS_OWN, {"cuda.device": "1", "mem": "32m"}) for _ in range(4)]
        for session_id in ids:
            assert (await until_state(client, session_id, "completed", "failed"))["exit_code"] == 0
        ids = [await submit(client, "exec sleep 600", {"cuda.device": "1", "mem": "32m"}) for _ in range(2)]
        for session_id in ids:
            await until_state(client, session_id, "running")
        agents = await agents_of(client)
        assert json.loads(agents["agent-1"]["gpu_alloc_map"]) == {FIRST: "1.00"}
        assert json.loads(agents["agent-2"]["gpu_alloc_map"]) == {SECOND: "1.00"}
        assert (await capacity(client))["cuda.device"] == ("2.00", "0.00", "2.00")


async def test_manual_mode_gives_agents_their_named_gpus_and_logs_the_unassigned_ones(tmp_path: Path) -> None:
    async with divided(tmp_path, MANUAL, agents=2) as (server, client):
        agents = await agents_of(client)
        assert {name: json.loads(agent["gpu_alloc_map"]) for name, agent in agents.items()} == {
            "agent-1": {SECOND: "0.00"},
            "agent-2": {},
        }
        assert [agent["allocation_mode"] for agent in agents.values()] == ["manual", "manual"]
        assert [factors(agent)["cuda.shares"] for agent in agents.values()] == ["0.5", "0"]
        assert "cuda0" in server.log_tail()
        assert "no job can use them" in server.log_tail()
        first = await submit(client, "exec sleep 600", {"cuda.shares": "0.6", "mem": "48m"})
        (kernel,) = (await until_state(client, first, "running"))["kernels"]
        assert kernel["agent_id"] == "agent-1"
        second = await submit(client, "true", {"cuda.shares": "0.3", "mem": "32m"})
        assert await until_waits(client, second) == "insufficient"


async def test_held_devices_stay_held_across_a_restart_that_changes_the_split(tmp_path: Path) -> None:
    async with divided(tmp_path, SHARED, agents=2) as (server, client):
        ids = [await submit(client, "exec sleep 600", {"cuda.device": "1"}) for _ in range(2)]
        for session_id in ids:
            await until_state(client, session_id, "running")
        before = held(await agents_of(client))
        await server.kill()
        (tmp_path / "aliquot.toml").write_text('[resource]\nallocation-mode = "auto-split"\n' + SHARED)
        await server.start()
        async with server.client() as again:
            agents = await until_joined(again, agents=2)
            assert {agent["allocation_mode"] for agent in agents.values()} == {"auto_split"}
            assert held(agents) == before
            third = await submit(again, "true", {"cuda.device": "1"})
            assert await until_waits(again, third) == "insufficient"


async def test_remote_agents_divide_a_node_like_local_agents(tmp_path: Path) -> None:
    config = {"ALIQUOT_CONFIG": str(tmp_path / "aliquot.toml")}
    (tmp_path / "aliquot.toml").write_text('[resource]\nallocation-mode = "auto-split"\n' + SHARED)
    async with OwnServer("--no-local-agents") as server, AsyncExitStack() as running, server.client() as client:
        for name in ("agent-1", "agent-2"):
            agent = OwnAgent(server, name, "--accelerators", TWO_GPUS, environment=config)
            await agent.start()
            running.push_async_callback(agent.stop)
        agents = await until_joined(client, agents=2)
        assert {name: json.loads(agent["gpu_alloc_map"]) for name, agent in agents.items()} == {
            "agent-1": {FIRST: "0.00"},
            "agent-2": {SECOND: "0.00"},
        }
        ids = [await submit(client, CHECKS_ITS_OWN, {"cuda.device": "1"}) for _ in range(2)]
        for session_id in ids:
            assert (await until_state(client, session_id, "completed", "failed"))["exit_code"] == 0


async def test_a_server_does_not_start_with_an_impossible_division_of_devices(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match="there is no cuda device 'cuda7'; there are cuda0, cuda1"):
        async with divided(tmp_path, MANUAL.replace("cuda1", "cuda7"), agents=2):
            pytest.fail("it started")


@asynccontextmanager
async def divided(folder: Path, text: str, *, agents: int) -> AsyncIterator[tuple[OwnServer, Client]]:
    """A server whose `aliquot.toml` divides the node with two GPUs."""
    config = folder / "aliquot.toml"
    config.write_text(text, encoding="utf-8")
    server = OwnServer("--accelerators", TWO_GPUS, environment={"ALIQUOT_CONFIG": str(config)})
    async with server, server.client() as client:
        await until_joined(client, agents=agents)
        yield server, client


async def until_joined(client: Client, *, agents: int) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        found = await agents_of(client)
        return found if len(found) == agents else None

    return await until(look)


async def agents_of(client: Client) -> dict[str, Any]:
    """The agents by id, in natural order."""
    edges = (await client.execute(AGENTS))["agents"]["edges"]
    return {edge["node"]["id"]: edge["node"] for edge in edges}


async def capacity(client: Client) -> dict[str, tuple[str, str, str]]:
    """The cluster's GPUs: total, available, allocated."""
    found = (await client.execute("{ cluster { capacity { slot total available allocated } } }"))["cluster"]
    amounts = {each["slot"]: (each["total"], each["available"], each["allocated"]) for each in found["capacity"]}
    return {slot: amounts[slot] for slot in ("cuda.device", "cuda.shares")}


async def until_waits(client: Client, session_id: str) -> str:
    async def reason() -> str | None:
        waits = (await session(client, session_id))["waits"]
        return waits["reason"] if waits else None

    return str(await until(reason))


def factors(agent: dict[str, Any]) -> dict[str, str]:
    return {factor["slot"]: factor["amount"] for factor in agent["scaling_factors"]}


def gpus(agent: dict[str, Any]) -> list[dict[str, Any]]:
    return [device for device in agent["devices"] if device["kind"] == "cuda"]


def held(agents: dict[str, Any]) -> dict[str, float]:
    """Held shares of each GPU, equal on all agents that have it."""
    maps = [json.loads(agent["gpu_alloc_map"]) for agent in agents.values()]
    seen = {(gpu, float(share)) for each in maps for gpu, share in each.items()}
    assert len(dict(seen)) == len(seen)
    return dict(seen)
