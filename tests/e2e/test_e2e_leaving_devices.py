"""A device is removed from an agent's configuration under a running job, and dropped when the job ends."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnAgent, OwnServer
from aliquot.client import Client
from e2e_sessions import alloc_map, session, submit, until, until_map, until_state
from remote_cluster import cluster

pytestmark = pytest.mark.anyio

FILE: Final = Path(__file__).parents[1] / "data" / "accelerators" / "two_gpus.toml"
FIRST: Final = "c59395cd-ac91-4cd3-a1b0-3d2568aa2d01"
SECOND: Final = "c59395cd-ac91-4cd3-a1b0-3d2568aa2d02"
THIRD: Final = "c59395cd-ac91-4cd3-a1b0-3d2568aa2d03"
EXCLUDED: Final = f'[devices]\nexclude = ["{SECOND}"]\n'
CHANGES: Final = {
    "other UUIDs": ("gpus.toml", FILE.read_text().replace(SECOND, THIRD), {FIRST: "healthy", THIRD: "healthy"}),
    "excluded": ("aliquot.toml", EXCLUDED, {FIRST: "healthy"}),
}
"""The changed file, its new text, and the GPUs left for new work."""


async def healths(client: Client, agent_id: str) -> dict[str, str]:
    """Health by GPU of an agent."""
    return {id: gpu["health"] for id, gpu in (await gpus(client, agent_id)).items()}


async def gpus(client: Client, agent_id: str) -> dict[str, dict[str, Any]]:
    query = "query ($id: String!) { agent(agent_id: $id) { devices { id kind health holders { session_id } } } }"
    devices = (await client.execute(query, {"id": agent_id}))["agent"]["devices"]
    return {gpu["id"]: gpu for gpu in devices if gpu["kind"] == "cuda"}


async def until_healths(client: Client, agent_id: str, expected: dict[str, str]) -> None:
    async def look() -> bool:
        return await healths(client, agent_id) == expected

    await until(look)


async def leaves_and_ends(
    client: Client,
    agent_id: str,
    *,
    folder: Path,
    restart: Callable[[], Awaitable[object]],
    rest: dict[str, str],
) -> None:
    """Hold the second GPU, restart with a changed configuration, and let the job end."""
    marks = folder / "leaving"
    marks.mkdir()
    marks.chmod(0o777)
    run = f"echo run >> {marks}/runs; while [ ! -e {marks}/go ]; do sleep 0.05; done; exit 7"
    job = await submit(client, run, {"cuda.shares": "0.4"})
    await until_state(client, job, "running")
    assert await alloc_map(client, agent_id) == {FIRST: "0.00", SECOND: "0.40"}
    await restart()
    await until_healths(client, agent_id, {SECOND: "leaving", **rest})
    idle = dict.fromkeys(rest, "0.00")
    assert await alloc_map(client, agent_id) == {SECOND: "0.40", **idle}
    assert [holder["session_id"] for holder in (await gpus(client, agent_id))[SECOND]["holders"]] == [job]
    beside = [await submit(client, "true", {"cuda.shares": "0.5"}) for _ in range(3)]
    for each in beside:
        ended = await until_state(client, each, "completed", "failed")
        assert (ended["state"], ended["attempt"]) == ("completed", 1)
    found = await session(client, job)
    assert (found["state"], found["attempt"]) == ("running", 1)
    (marks / "go").touch()
    ended = await until_state(client, job, "completed", "failed")
    assert (ended["exit_code"], ended["attempt"]) == (7, 1)
    assert (marks / "runs").read_text() == "run\n"
    await until_healths(client, agent_id, rest)
    await until_map(client, agent_id, idle)


@pytest.mark.parametrize("change", CHANGES)
async def test_a_held_device_leaves_a_local_agent_when_its_job_ends(tmp_path: Path, change: str) -> None:
    name, text, rest = CHANGES[change]
    gpus_file, environment = configured(tmp_path)
    async with (
        OwnServer("--accelerators", str(gpus_file), environment=environment) as server,
        server.client() as client,
    ):
        await until_joined(client, agents=1)
        (edge,) = (await client.execute("{ agents { edges { node { id } } } }"))["agents"]["edges"]

        async def restart() -> None:
            await server.stop()
            (tmp_path / name).write_text(text)
            await server.start()
            assert f"({SECOND}) is no longer in the configuration" in server.log_tail()

        await leaves_and_ends(client, str(edge["node"]["id"]), folder=server.folder, restart=restart, rest=rest)


@pytest.mark.parametrize("change", CHANGES)
async def test_a_held_device_leaves_a_remote_agent_when_its_job_ends(tmp_path: Path, change: str) -> None:
    name, text, rest = CHANGES[change]
    gpus_file, environment = configured(tmp_path)
    async with cluster() as on:
        agent = OwnAgent(on.server, "remote-1", "--accelerators", str(gpus_file), environment=environment)
        on.agents.append(agent)
        await agent.start()
        await on.until_agent("alive", "remote-1")

        async def restart() -> None:
            await agent.stop()
            (tmp_path / name).write_text(text)
            await agent.start()
            await on.until_log(agent, f"({SECOND}) is no longer in the configuration")

        await leaves_and_ends(on.client, "remote-1", folder=on.server.folder, restart=restart, rest=rest)


def configured(folder: Path) -> tuple[Path, dict[str, str]]:
    """A file with two GPUs and an empty configuration: the file, and a variable for the other."""
    (folder / "gpus.toml").write_text(FILE.read_text())
    (folder / "aliquot.toml").write_text("")
    return folder / "gpus.toml", {"ALIQUOT_CONFIG": str(folder / "aliquot.toml")}
