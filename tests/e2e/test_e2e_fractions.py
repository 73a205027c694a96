"""Two sessions share two GPUs by fractions that no single device has free, and release them."""

import json
import os
import signal
from pathlib import Path

import pytest

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client
from e2e_sessions import alloc_map, session, submit, until_map, until_state

pytestmark = pytest.mark.anyio

FIRST = "c59395cd-ac91-4cd3-a1b0-3d2568aa2d01"
SECOND = "c59395cd-ac91-4cd3-a1b0-3d2568aa2d02"
HELD = {SECOND: "0.80", FIRST: "0.60"}
IDLE = {SECOND: "0.00", FIRST: "0.00"}

RESCAN_ALL = """mutation { rescan_gpu_alloc_maps { ... on RescanSuccess {
  agent_id agents silent differences { evidence } } } }"""
RESCAN = """mutation ($agent_id: String!) { rescan_gpu_alloc_maps(agent_id: $agent_id) { ... on RescanSuccess {
  scanned unreadable gpu_alloc_map differences { kind subject } } ... on Error { code } } }"""

UNTIL_TOLD = 'while [ ! -e "{flag}" ]; do sleep 0.05; done'


async def test_fractions_over_two_gpus_are_granted_and_released_exactly(two_gpus: OwnServer) -> None:
    async with two_gpus.client() as client:
        agent_id = await only_agent(client)
        await hold_and_release(two_gpus, client, agent_id, round_number=1)
        await hold_and_release(two_gpus, client, agent_id, round_number=2)


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_fractions_are_granted_again_after_a_server_restart(two_gpus: OwnServer, how: str) -> None:
    async with two_gpus.client() as client:
        agent_id = await only_agent(client)
        await hold_and_release(two_gpus, client, agent_id, round_number=1)
    await (two_gpus.stop() if how == "stop" else two_gpus.kill())
    await two_gpus.start()
    async with two_gpus.client() as client:
        await until_map(client, agent_id, IDLE)
        await hold_and_release(two_gpus, client, agent_id, round_number=2)


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_fractions_stay_held_across_a_server_restart(two_gpus: OwnServer, how: str) -> None:
    async with two_gpus.client() as client:
        agent_id = await only_agent(client)
        ids = await hold(two_gpus, client, agent_id, round_number=1)
    await (two_gpus.stop() if how == "stop" else two_gpus.kill())
    await two_gpus.start()
    async with two_gpus.client() as client:
        assert await alloc_map(client, agent_id) == HELD
        await release(two_gpus, client, agent_id, ids, round_number=1)


async def test_fractions_are_granted_again_after_the_spawner_was_killed(two_gpus: OwnServer) -> None:
    async with two_gpus.client() as client:
        agent_id = await only_agent(client)
        await hold_and_release(two_gpus, client, agent_id, round_number=1)
        for pid in spawners(two_gpus.pid):
            os.kill(pid, signal.SIGKILL)
        await hold_and_release(two_gpus, client, agent_id, round_number=2)


async def test_an_unreadable_resource_file_does_not_affect_other_kernels(two_gpus: OwnServer) -> None:
    async with two_gpus.client() as client:
        agent_id = await only_agent(client)
        ids = await hold(two_gpus, client, agent_id, round_number=1)
        assert await rescanned(client, agent_id) == ((2, [], []), HELD)
        kernel = f"{ids[1]}.1.0"
        [file] = (path for path in two_gpus.data_folder.rglob("resource.json") if kernel in str(path))
        told = file.read_bytes()
        file.write_bytes(b"{")
        differs = [{"kind": "spec_differs", "subject": kernel}]
        assert await rescanned(client, agent_id) == ((2, [kernel], differs), {SECOND: "0.20", FIRST: "0.00"})
        assert await alloc_map(client, agent_id) == HELD
        wrong = json.loads(told)
        shares = wrong["slots"]["cuda.shares"]
        shares[FIRST] = "0.30"
        file.write_text(json.dumps(wrong))
        seen = (await client.execute(RESCAN_ALL))["rescan_gpu_alloc_maps"]
        assert (seen["agent_id"], seen["agents"], seen["silent"]) == (None, [agent_id], [])
        [difference] = seen["differences"]
        told_apart = difference["evidence"].partition("the lease ")
        assert f"0.30 cuda.shares of {FIRST}" in told_apart[0], difference
        assert f"0.60 cuda.shares of {FIRST}" in told_apart[2], difference
        file.write_bytes(told)
        assert await rescanned(client, agent_id) == ((2, [], []), HELD)
        assert (await client.execute(RESCAN, {"agent_id": "x"}))["rescan_gpu_alloc_maps"]["code"] == "not_found"
        await release(two_gpus, client, agent_id, ids, round_number=1)


async def rescanned(
    client: Client, agent_id: str
) -> tuple[tuple[int, list[str], list[dict[str, str]]], dict[str, str]]:
    """A rescan of the agent's files, and its map."""
    found = (await client.execute(RESCAN, {"agent_id": agent_id}))["rescan_gpu_alloc_maps"]
    by_files: dict[str, str] = json.loads(found["gpu_alloc_map"])
    return (found["scanned"], found["unreadable"], found["differences"]), by_files


def spawners(server_pid: int) -> list[int]:
    """The server's own spawner processes; at least one."""
    tasks = Path(f"/proc/{server_pid}/task").iterdir()
    children = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
    found = [pid for pid in children if b"spawner" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert found
    return found


async def only_agent(client: Client) -> str:
    (edge,) = (await client.execute("{ agents { edges { node { id } } } }"))["agents"]["edges"]
    return str(edge["node"]["id"])


async def hold_and_release(server: OwnServer, client: Client, agent_id: str, *, round_number: int) -> None:
    ids = await hold(server, client, agent_id, round_number=round_number)
    await release(server, client, agent_id, ids, round_number=round_number)


async def hold(server: OwnServer, client: Client, agent_id: str, *, round_number: int) -> list[str]:
    waiting = UNTIL_TOLD.format(flag=server.folder / f"flag-{round_number}")
    ids = []
    for shares in ("0.2", "1.2"):
        ids.append(await submit(client, waiting, {"cuda.shares": shares}))
        await until_state(client, ids[-1], "running")
    assert await alloc_map(client, agent_id) == HELD
    return ids


async def release(server: OwnServer, client: Client, agent_id: str, ids: list[str], *, round_number: int) -> None:
    (server.folder / f"flag-{round_number}").touch()
    for session_id in ids:
        await until_state(client, session_id, "completed")
        assert (await session(client, session_id))["exit_code"] == 0
    await until_map(client, agent_id, IDLE)
