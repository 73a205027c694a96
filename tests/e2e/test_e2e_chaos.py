"""Environment faults: clocks, DNS, certificates, disks, reused pids. Running jobs still end correctly."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from aliquot.cli.acceptance.processes import OwnAgent, OwnServer
from aliquot.client import Client, GraphQLFault, Refused, ServerUnreachable
from chaos_process_faults import ProcessFaults
from e2e_sessions import submit, until, until_state
from failover_cluster import failover_cluster, pause_server, resume_server
from long_tests import LONG
from remote_cluster import Cluster, cluster
from remote_tls import served

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

DAY_S = 86_400
PAUSE_S = 60.0
TIMES = "query ($id: ID!) { session(id: $id) { state exit_code attempt started_at ended_at } }"
EVERYWHERE = ("--host", "0.0.0.0", "--single-trust-domain")


@pytest.fixture
def hooks(tmp_path: Path) -> ProcessFaults:
    return ProcessFaults(tmp_path)


@asynccontextmanager
async def steered(on: Cluster, hooks: ProcessFaults, *, url: str | None = None) -> AsyncIterator[OwnAgent]:
    """An agent with injectable faults."""
    agent = OwnAgent(on.server, "demo-1", "--demo-node", "1", url=url, environment=hooks.environment)
    on.agents.append(agent)
    await agent.start()
    await on.until_agent("alive")
    yield agent


@pytest.mark.parametrize("shift_s", [2 * DAY_S, pytest.param(-2 * DAY_S, marks=LONG)])
async def test_jobs_keep_their_time_limits_and_ends_when_the_agents_clock_jumps(
    hooks: ProcessFaults, shift_s: int
) -> None:
    async with cluster() as on, steered(on, hooks) as agent:
        jobs = {name: await on.job(name) for name in ("a", "b")}
        limited = await submit(on.client, "sleep 600", {"cuda.device": "1"}, time_limit=8.0)
        await until_state(on.client, limited, "running")
        hooks.set_clock(shift_s)
        on.end_job("a")
        assert (await on.ended(jobs["a"]))["exit_code"] == 7
        assert (await until_state(on.client, limited, "failed"))["failure"]["code"] == "time_limit"
        await agent.stop()
        await agent.start()
        await on.until_agent("alive")
        on.end_job("b")
        assert (await on.ended(jobs["b"]))["exit_code"] == 7
        after = await submit(on.client, "exit 3", {"cuda.device": "8"})
        assert (await until_state(on.client, after, "failed"))["exit_code"] == 3
        for session_id in (*jobs.values(), after):
            found = (await on.client.execute(TIMES, {"id": session_id}))["session"]
            assert (found["attempt"], found["started_at"] <= found["ended_at"]) == (1, True)
            assert found["started_at"][:8] == found["ended_at"][:8], "the server's clock counts"


async def test_an_agent_survives_a_name_resolution_outage_and_reconnects_afterwards(hooks: ProcessFaults) -> None:
    async with cluster() as on, steered(on, hooks, url=f"http://localhost:{on.server.port}") as agent:
        job = await on.job("a")
        hooks.fail_name_resolution()
        fresh = await submit(on.client, "exit 3", {"cuda.device": "1"})
        assert (await until_state(on.client, fresh, "failed"))["exit_code"] == 3
        await on.server.stop()
        await on.server.start()
        await on.until_log(agent, "the host name does not resolve")
        on.end_job("a")
        hooks.restore_name_resolution()
        assert (await on.ended(job))["exit_code"] == 7
        assert on.runs("a") == 1


async def test_an_expired_certificate_ends_no_job_and_a_renewed_one_is_used() -> None:
    async with served(*EVERYWHERE) as on, on.http() as http:
        agent = OwnAgent(on, "demo-1", "--demo-node", "1", "--ca-file", str(on.authority.file))  # type: ignore[arg-type]
        flag = on.folder / "go"

        async def state() -> list[tuple[str, int | None]]:
            told = await http.post("/graphql", json={"query": "{ sessions { edges { node { state exit_code } } } }"})
            edges = told.json()["data"]["sessions"]["edges"]
            return [(edge["node"]["state"], edge["node"]["exit_code"]) for edge in edges]

        async def is_running() -> bool:
            return await state() == [("running", None)]

        async def has_ended() -> bool:
            try:
                return await state() == [("failed", 7)]
            except httpx.ConnectError:
                return False  # the new certificate is not loaded yet

        await agent.start()
        try:
            shell = json.dumps(f"while [ ! -e {flag} ]; do sleep 0.1; done; exit 7")
            wanted = f'{{ command: {{ shell: {shell} }}, slots: [{{ slot: "cuda.device", amount: "1" }}] }}'
            await http.post(
                "/graphql", json={"query": f"mutation {{ create_session(input: {wanted}) {{ __typename }} }}"}
            )
            await until(is_running)
            on.authority.issue("localhost", expired=True)
            await agent.stop()

            async def is_refused() -> bool:
                try:
                    async with on.http() as fresh:
                        await fresh.get("/healthz")
                except httpx.ConnectError as error:
                    return "expired" in str(error)
                return False

            await until(is_refused)
            await agent.start()

            async def says_expired() -> bool:
                return "expired" in agent.log()

            await until(says_expired)
            flag.touch()
            on.authority.issue("localhost")
            await until(has_ended)
        finally:
            await agent.stop()


@pytest.mark.parametrize("reused", [pytest.param("same boot", marks=LONG), "another boot"])
async def test_a_reused_pid_of_another_process_is_left_alone(reused: str) -> None:
    async with cluster() as on:
        agent = await on.agent()
        await on.until_agent("alive")
        job = await on.job("a")
        await agent.stop()
        (folder,) = (agent.folder / "kernels").iterdir()
        pids = json.loads((folder / "pid.json").read_text())
        for pid in (pids["shim_pid"], pids["pid"]):
            os.kill(pid, 9)
        stranger = await asyncio.create_subprocess_exec("sleep", "1000")
        try:
            _write(folder / "pid.json", {**pids, "shim_pid": stranger.pid, "pid": stranger.pid})
            if reused == "another boot":
                for file in folder.glob("*.json"):
                    fields = json.loads(file.read_text())
                    if "boot_id" in fields:
                        _write(file, {**fields, "boot_id": "11111111-2222-4333-8444-555555555555"})
            await agent.start()
            await on.until_agent("alive")
            await until_state(on.client, job, "failed", "queued", "running")

            async def is_over() -> bool:
                found = (await on.client.execute(TIMES, {"id": job}))["session"]
                return found["state"] in ("failed", "completed") or found["attempt"] > 1

            await until(is_over)
            assert stranger.returncode is None
        finally:
            stranger.kill()
            await stranger.wait()


def _write(path: Path, fields: object) -> None:
    path.write_text(json.dumps(fields))


async def test_a_failed_fsync_loses_no_acknowledged_session(hooks: ProcessFaults) -> None:
    async with OwnServer("--demo", environment=hooks.fsync_environment()) as server, server.client() as client:
        acknowledged = [await submit(client, "exit 3", {"cuda.device": "1"})]
        hooks.fail_fsync()
        refused = 0
        async with asyncio.timeout(60):
            while refused < 3:
                try:
                    acknowledged.append(await submit(client, "exit 3", {"cuda.device": "1"}))
                except (GraphQLFault, Refused, ServerUnreachable):
                    refused += 1
        hooks.restore_fsync()
        acknowledged.append(await until(lambda: _submitted(client)))
        await server.kill()
        await server.start()
        for session_id in acknowledged:
            assert (await until_state(client, session_id, "failed"))["exit_code"] == 3


async def _submitted(client: Client) -> str | None:
    try:
        return await submit(client, "exit 3", {"cuda.device": "1"})
    except (GraphQLFault, Refused, ServerUnreachable):
        return None


@pytest.mark.timeout(400)
@LONG
async def test_a_leader_that_is_paused_for_a_minute_changes_nothing_when_it_wakes_up(database_url: str) -> None:
    async with failover_cluster(database_url, database_url) as on:
        old, new = on.servers
        jobs = {name: await on.job(name, code=3) for name in ("a", "b")}
        pause_server(old)
        paused = asyncio.create_task(asyncio.sleep(PAUSE_S))
        assert await on.leader(among=[new]) is new
        on.end_job("a")
        assert (await on.wait_for_state(jobs["a"], "failed", at=new))["exit_code"] == 3
        during = [await on.submit("exit 5", key=f"during {number}", first=1) for number in range(5)]
        await paused
        resume_server(old)
        await on.wait_for_standing(old, role="follower", leader_address=new.url)
        on.end_job("b")
        for session_id, code in ((jobs["a"], 3), (jobs["b"], 3), *((name, 5) for name in during)):
            for server in on.servers:
                found = await on.wait_for_state(session_id, "failed", at=server)
                assert (found["exit_code"], found["attempt"]) == (code, 1)
        assert (on.runs("a"), on.runs("b")) == (1, 1)
