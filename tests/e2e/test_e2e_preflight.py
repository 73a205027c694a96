"""Preflights of gangs on real agents: a failing node is replaced, and ranks start when all have passed."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from aliquot.cli.acceptance.processes import OwnAgent
from aliquot.client import Client
from e2e_sessions import output_of, submit, until, until_state
from remote_cluster import Cluster, cluster

pytestmark = pytest.mark.anyio

AS_ANYBODY: Final = ("--job-user", "root", "--allow-root-jobs") if os.geteuid() == 0 else ()
LOOK: Final = """
query ($id: ID!) {
  session(id: $id) {
    attempt kernels { rank agent_id }
    preflight { command time_limit failures agent_id message }
  }
  session_steps(id: $id, first: 50) { edges { node { kind } } }
}
"""


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """A folder writable for all jobs."""
    tmp_path.chmod(0o777)
    return tmp_path


async def agents(on: Cluster, count: int) -> None:
    """Start agents with eight mock GPUs each."""
    for number in range(1, count + 1):
        agent = OwnAgent(on.server, f"demo-{number}", "--demo-node", str(number), *AS_ANYBODY)
        on.agents.append(agent)
        await agent.start()
        await on.until_agent("alive", f"demo-{number}")


async def gang(client: Client, shell: str, check: str) -> str:
    """Submit a gang of two that needs two nodes."""
    preflight = {"command": {"shell": check}, "time_limit": 30.0}
    return await submit(client, shell, {"cuda.device": "5"}, cluster_size=2, preflight=preflight)


async def aliquot(*words: str) -> tuple[int, str]:
    """Run a command; (exit code, output)."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "aliquot", *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    return await process.wait(), said.decode()


async def looked_at(client: Client, session_id: str) -> tuple[dict[str, Any], list[str]]:
    found = await client.execute(LOOK, {"id": session_id})
    return found["session"], [edge["node"]["kind"] for edge in found["session_steps"]["edges"]]


async def test_a_gang_with_a_failed_preflight_runs_on_another_node_without_a_retry(marks: Path) -> None:
    async with cluster() as on:
        await agents(on, 3)
        check = f"if [ $ALIQUOT_RANK = 0 ] && mkdir {marks}/bad 2>/dev/null; then echo link 3 is slow; exit 9; fi"
        session_id = await gang(on.client, "echo runs on $ALIQUOT_AGENT_ID", check)
        ended = await until_state(on.client, session_id, "completed", "failed")
        assert ended["state"] == "completed", ended
        found, steps = await looked_at(on.client, session_id)
        assert (found["attempt"], found["preflight"]["failures"]) == (2, 1)
        bad = found["preflight"]["agent_id"]
        assert bad not in {kernel["agent_id"] for kernel in found["kernels"]}
        assert found["preflight"]["message"] == "rank 0: it exited with code 9; its output ends with: link 3 is slow"
        assert "session.preflight_failed" in steps
        assert (await output_of(on.client, session_id)).startswith("runs on demo-")
        await on.server.stop()
        code, said = await aliquot("replay", "--last", "1000", "--data-folder", str(on.server.data_folder))
        assert code == 0, said
        assert said.endswith(" 0 differences\n"), said


async def test_no_rank_starts_before_all_preflights_have_passed(marks: Path) -> None:
    slow = f"until [ -e {marks}/passed-0 ]; do sleep 0.05; done; sleep 0.5; ! ls {marks}/started-* 2>/dev/null"
    check = f"if [ $ALIQUOT_RANK = 1 ]; then {slow}; else touch {marks}/passed-0; fi"
    async with cluster() as on:
        await agents(on, 2)
        session_id = await gang(on.client, f"touch {marks}/started-$ALIQUOT_RANK", check)
        ended = await until_state(on.client, session_id, "completed", "failed")
        assert ended["state"] == "completed", ended
        assert {name for name in os.listdir(marks) if name.startswith("started-")} == {"started-0", "started-1"}
        found, _ = await looked_at(on.client, session_id)
        assert (found["attempt"], found["preflight"]["failures"]) == (1, 0)


async def test_a_server_killed_while_ranks_wait_starts_them_after_the_restart(marks: Path) -> None:
    """One rank passes before, the other one while no server runs: the next server starts both."""
    slow = f"until [ -e {marks}/go ]; do sleep 0.05; done"
    check = f"if [ $ALIQUOT_RANK = 1 ]; then {slow}; fi; touch {marks}/passed-$ALIQUOT_RANK"
    async with cluster() as on:
        await agents(on, 2)
        session_id = await gang(on.client, f"touch {marks}/started-$ALIQUOT_RANK", check)
        await until_there(marks / "passed-0")
        await on.server.kill()
        (marks / "go").touch()
        await until_there(marks / "passed-1")
        assert not [name for name in os.listdir(marks) if name.startswith("started-")]
        await on.server.start()
        ended = await until_state(on.client, session_id, "completed", "failed")
        assert ended["state"] == "completed", ended
        assert {name for name in os.listdir(marks) if name.startswith("started-")} == {"started-0", "started-1"}
        found, _ = await looked_at(on.client, session_id)
        assert (found["attempt"], found["preflight"]["failures"]) == (1, 0)


async def until_there(path: Path) -> None:
    async def look() -> bool:
        return path.name in os.listdir(path.parent)

    await until(look)
