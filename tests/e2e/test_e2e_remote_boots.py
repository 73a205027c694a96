"""Nodes that reboot, and agents that move to another machine: one run, and devices freed on evidence."""

import os
import signal

import pytest

from agent_harness import shim_pids
from aliquot.cli.acceptance.checks import kill_mentioning
from aliquot.cli.acceptance.processes import OwnAgent
from e2e_sessions import session, until_map
from remote_cluster import Cluster, cluster
from remote_machine import booted_as

pytestmark = pytest.mark.anyio

DEMO_1 = {f"a11c0000-0001-4000-8000-{index:012x}": "0.00" for index in range(8)}
DEMO_2 = {f"a11c0000-0002-4000-8000-{index:012x}": "0.00" for index in range(8)}
RELEASE = 'mutation { release_lost_agent(id: "demo-1") { __typename } }'


async def booted(on: Cluster, boot_id: str, *, node: int = 1, data: str = "data-demo-1") -> OwnAgent:
    """The agent demo-1 with a boot id."""
    environment = booted_as(boot_id, folder=on.server.folder / "python")
    agent = OwnAgent(on.server, "demo-1", "--demo-node", str(node), environment=environment)
    agent.data_folder = on.server.folder / data
    on.agents.append(agent)
    await agent.start()
    return agent


async def power_cut(on: Cluster, agent: OwnAgent) -> None:
    """Kill all processes of the machine."""
    await agent.stop(signal.SIGKILL)
    for shim in shim_pids(agent.folder):  # first, so that no shim records an exit
        os.kill(shim, signal.SIGKILL)
    kill_mentioning(str(agent.data_folder))


@pytest.mark.parametrize("data", ["data-demo-1", "data-after-a-new-disk"])
async def test_after_a_reboot_a_running_session_runs_once_more_and_no_device_stays_held(data: str) -> None:
    async with cluster() as on:
        agent = await booted(on, "boot-1")
        await on.until_agent("alive")
        job = await on.job("job")
        await power_cut(on, agent)
        await on.until_agent("suspect")
        assert (await session(on.client, job))["state"] == "running"
        await booted(on, "boot-2", data=data)
        on.end_job("job")
        ended = await on.ended(job)
        assert (ended["state"], ended["exit_code"], ended["attempt"]) == ("failed", 7, 2)
        assert on.runs("job") == 2, "once before the boot and once after it"
        await until_map(on.client, "demo-1", DEMO_1)


async def test_an_agent_that_connects_from_another_machine_is_refused_while_it_holds_devices() -> None:
    async with cluster() as on:
        agent = await booted(on, "boot-1")
        await on.until_agent("alive")
        job = await on.job("job")
        await agent.stop(signal.SIGKILL)
        moved = await booted(on, "boot-of-another", node=2, data="data-of-another")
        await on.until_log(moved, "holds devices of another machine (demo-1), where its kernels may still run")
        await on.until_agent("lost")
        found = await session(on.client, job)
        assert (found["state"], found["holds_devices"], on.runs("job")) == ("running", True, 1)
        kill_mentioning(str(agent.data_folder))
        await on.client.execute(RELEASE)
        await on.until_agent("alive")
        on.end_job("job")
        ended = await on.ended(job)
        assert (ended["exit_code"], ended["attempt"]) == (7, 2)
        assert on.runs("job") == 2
        await until_map(on.client, "demo-1", DEMO_2)


async def test_an_agent_without_held_devices_may_move_to_another_machine() -> None:
    async with cluster() as on:
        agent = await booted(on, "boot-1")
        await on.until_agent("alive")
        await power_cut(on, agent)
        await booted(on, "boot-of-another", node=2, data="data-of-another")
        await on.until_agent("alive")
        await until_map(on.client, "demo-1", DEMO_2)
