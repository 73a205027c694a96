"""Remote agents: killed, frozen, disconnected, and with their server restarted."""

import asyncio
import json
import signal
import subprocess
import sys

import pytest

from aliquot.cli.acceptance.processes import OwnAgent
from e2e_sessions import session, submit, until, until_map, until_state
from remote_cluster import Cluster, cluster
from remote_proxy import Proxy, proxy_to

pytestmark = pytest.mark.anyio

IDLE = {f"a11c0000-0001-4000-8000-{index:012x}": "0.00" for index in range(8)}
CANCEL = "mutation ($id: ID!) { cancel_session(input: { id: $id }) { __typename } }"


async def test_an_agent_joins_runs_and_leaves() -> None:
    async with cluster() as on:
        agent = await on.agent()
        await on.until_agent("alive")
        job = await on.job("first")
        on.end_job("first")
        assert (await on.ended(job))["exit_code"] == 7
        await until_map(on.client, "demo-1", IDLE)
        assert await agent.stop() == 0
        await on.until_agent("left")
        await on.agent()
        await on.until_agent("alive")


async def test_sessions_survive_a_killed_agent_and_their_exit_codes_arrive_later() -> None:
    async with cluster() as on:
        agent = await on.agent()
        await on.until_agent("alive")
        jobs = {name: await on.job(name, code=code) for name, code in (("a", 3), ("b", 4))}
        await agent.stop(signal.SIGKILL)
        await on.until_agent("suspect")
        on.end_job("a")
        for job in jobs.values():
            assert (await session(on.client, job))["state"] == "running"
        await agent.start()
        await on.until_agent("alive")
        assert (await on.ended(jobs["a"]))["exit_code"] == 3
        on.end_job("b")
        assert (await on.ended(jobs["b"]))["exit_code"] == 4
        assert (on.runs("a"), on.runs("b")) == (1, 1)
        await until_map(on.client, "demo-1", IDLE)


async def test_an_agent_restarted_cleanly_under_its_job_is_not_reported_as_left() -> None:
    async with cluster() as on:
        agent = await on.agent()
        await on.until_agent("alive")
        job = await on.job("job")
        assert await agent.stop() == 0
        await agent.start()
        on.end_job("job")
        assert (await on.ended(job))["exit_code"] == 7
        assert on.runs("job") == 1
        assert "left" not in on.states


async def test_a_frozen_agent_is_suspect_then_lost_keeps_its_devices_and_comes_back() -> None:
    async with cluster() as on:
        agent = await on.agent()
        await on.until_agent("alive")
        job = await on.job("job")
        agent.send_signal(signal.SIGSTOP)
        await on.until_agent("lost")
        assert on.states[-3:] == ["alive", "suspect", "lost"]
        held = await until(lambda: _held(on))
        assert held == ["1.00"]
        agent.send_signal(signal.SIGCONT)
        await on.until_agent("alive")
        on.end_job("job")
        assert (await on.ended(job))["exit_code"] == 7
        assert on.runs("job") == 1


async def test_a_lost_agent_connection_is_reopened_and_sessions_canceled_meanwhile_end() -> None:
    async with cluster() as on, proxy_to(on.server.port) as proxy:
        agent = await on.agent(url=proxy.url)
        await on.until_agent("alive")
        kept, canceled = await on.job("kept"), await on.job("canceled")
        proxy.cut()
        await on.until_log(agent, "not connected")
        await on.client.execute(CANCEL, {"id": canceled})
        on.end_job("kept")
        waiting = await _submit_waiting(on)
        await on.until_agent("suspect")
        proxy.resume()
        await on.until_agent("alive")
        assert (await on.ended(kept))["exit_code"] == 7
        await until_state(on.client, waiting, "completed")
        await until_map(on.client, "demo-1", IDLE)
        assert (on.runs("kept"), on.runs("canceled")) == (1, 1)


async def test_a_stalled_connection_is_closed_by_both_sides() -> None:
    async with cluster() as on, proxy_to(on.server.port) as proxy:
        agent = await on.agent(url=proxy.url)
        await on.until_agent("alive")
        job = await on.job("job")
        given_up = await _stalled(on, agent, proxy)
        while "the server was silent" not in given_up:  # slow machine: it was reconnecting at the stall
            proxy.resume()
            await on.until_agent("alive")
            given_up = await _stalled(on, agent, proxy)
        proxy.resume()
        await on.until_agent("alive")
        on.end_job("job")
        assert (await on.ended(job))["exit_code"] == 7
        assert on.runs("job") == 1


@pytest.mark.parametrize("crash", [False, True])
async def test_a_server_that_is_restarted_finds_its_agents_and_their_jobs_again(crash: bool) -> None:
    async with cluster() as on:
        agent = await on.agent()
        await on.until_agent("alive")
        jobs = {name: await on.job(name) for name in ("a", "b")}
        await (on.server.kill() if crash else on.server.stop())
        await on.until_log(agent, "not connected")
        on.end_job("a")
        await on.server.start()
        await on.until_agent("alive")
        assert (await on.ended(jobs["a"]))["exit_code"] == 7
        on.end_job("b")
        assert (await on.ended(jobs["b"]))["exit_code"] == 7
        assert (on.runs("a"), on.runs("b")) == (1, 1)
        assert "left" not in on.states


async def _stalled(on: Cluster, agent: OwnAgent, proxy: Proxy) -> str:
    """Stall until both sides have closed the connection; returns the agent's message."""
    said = len(agent.log())
    proxy.stall()
    await on.until_agent("suspect")
    return await on.until_log(agent, "not connected", after=said)


async def _held(on: Cluster) -> list[str]:
    query = 'query { agent(agent_id: "demo-1") { gpu_alloc_map } }'
    found = json.loads((await on.client.execute(query))["agent"]["gpu_alloc_map"])
    return [share for share in found.values() if share != "0.00"]


async def _submit_waiting(on: Cluster) -> str:
    return await submit(on.client, "true", {"cuda.device": "1"})


@pytest.mark.slow
async def test_the_acceptance_run_succeeds_with_two_remote_agents() -> None:
    job = [sys.executable, "-m", "aliquot", "once", "--agents", "2", "--json"]
    done = await asyncio.to_thread(subprocess.run, job, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["ok"]
