"""Agent authentication: keys, names and versions, their refusals, and `aliquot agent` checks."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from aliquot.cli.acceptance.processes import OwnAgent
from aliquot.execution.remote.codec import decode, encode, frames
from aliquot_schema.cluster.agent_protocol import AGENT_HEADER, PATH, Hello, Protocols, Refusal
from aliquot_schema.ids import AgentId
from remote_cluster import Cluster, cluster

pytestmark = pytest.mark.anyio

ACCELERATORS = Path(__file__).parents[1] / "data" / "accelerators"


async def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `aliquot agent ...` until it ends."""
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "aliquot", "agent", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def test_a_key_that_is_revoked_ends_the_connection_and_a_new_one_opens_it() -> None:
    async with cluster() as on:
        data = str(on.server.data_folder)
        agent = await on.agent()
        await on.until_agent("alive")
        job = await on.job("job")
        assert (await command("key", "revoke", "demo-1", "--data-folder", data)).returncode == 0
        await on.until_log(agent, "refused: the key of demo-1 is wrong or revoked")
        await on.until_agent("suspect")
        listed = await command("key", "list", "--data-folder", data)
        assert "demo-1" in listed.stdout
        (told,) = json.loads((await command("key", "list", "--json", "--data-folder", data)).stdout)
        assert (told["agent_id"], told["revoked_at"] is None) == ("demo-1", False)
        made = await command("key", "create", "demo-1", "--data-folder", data)
        agent.key_file.write_text(made.stdout)
        await on.until_agent("alive")
        on.end_job("job")
        assert (await on.ended(job))["exit_code"] == 7
        assert on.runs("job") == 1
        assert (await command("key", "create", "demo-1", "--data-folder", data)).returncode == 2
        assert (await command("key", "create", "x", "--data-folder", str(on.server.folder))).returncode == 2


async def test_a_wrong_agent_key_is_refused_with_the_reason_and_retried() -> None:
    async with cluster() as on:
        agent = OwnAgent(on.server, "demo-1", "--demo-node", "1")
        agent.key_file.write_text("agk_wrong\n")
        agent.key_file.chmod(0o600)
        on.agents.append(agent)
        await agent.start()
        await on.until_log(agent, "refused: the key of demo-1 is wrong")
        assert await on.agent_states() == {}
        with pytest.raises(InvalidStatus) as refused:
            await connect(socket_url(on), proxy=None)
        assert refused.value.response.status_code == 401


async def test_a_key_file_that_others_can_read_is_refused_before_anything_is_started() -> None:
    async with cluster() as on:
        agent = OwnAgent(on.server, "demo-1", "--demo-node", "1")
        agent.write_key()
        agent.key_file.chmod(0o644)
        await agent.start()
        on.agents.append(agent)
        await on.until_log(agent, "other users can read")
        assert await agent.wait() == 2


async def test_a_protocol_version_mismatch_names_the_side_to_upgrade() -> None:
    async with cluster() as on:
        agent = OwnAgent(on.server, "demo-1")
        agent.write_key()
        headers = {"authorization": f"Bearer {agent.key_file.read_text().strip()}", AGENT_HEADER: "demo-1"}
        async with connect(socket_url(on), additional_headers=headers, proxy=None) as socket:
            hello = Hello(
                agent_id=AgentId("demo-1"),
                boot_id="b",
                instance="i",
                software_version="aliquot 99",
                protocols=Protocols(oldest=98, newest=99),
            )
            for frame in frames(encode(hello)):
                await socket.send(frame)
            answer = decode((await socket.recv(decode=False))[1:])
        assert isinstance(answer, Refusal)
        assert answer.message.endswith("upgrade the server")
        assert socket.close_code == 4400


async def test_a_second_agent_process_with_the_same_name_is_refused() -> None:
    async with cluster() as on:
        first = await on.agent()
        await on.until_agent("alive")
        second = OwnAgent(on.server, "demo-1", "--demo-node", "1")
        second.data_folder = on.server.folder / "data-second"
        second._log = on.server.folder / "second.log"
        on.agents.append(second)
        await second.start()
        await on.until_log(second, "another process is connected as demo-1")
        await first.stop()
        await on.until_log(second, "is connected to")


async def checked(*arguments: str) -> tuple[int, dict[str, dict[str, Any]]]:
    done = await command("check", "--json", *arguments)
    assert done.stdout, done.stderr
    return done.returncode, {result["name"]: result for result in json.loads(done.stdout)}


async def test_an_agent_check_examines_node_and_server_and_starts_nothing() -> None:
    async with cluster() as on:
        agent = OwnAgent(on.server, "demo-1")
        agent.write_key()
        data = ["--data-folder", str(agent.data_folder)]
        dial = ["--server", on.server.url, "--key-file", str(agent.key_file), "--demo-node", "1"]
        code, seen = await checked(*dial, *data)
        assert code == 0, seen
        assert seen["key and protocol"]["grade"] == "ok"
        assert seen["clock"]["grade"] == "ok"
        assert "8 x cuda" in seen["devices"]["seen"]
        assert not agent.data_folder.exists()
        assert await on.agent_states() == {}
        running = await on.agent()
        await on.until_agent("alive")
        assert (await checked(*dial, *data))[0] == 0
        assert running.log().count("is connected to") == 1


async def test_an_agent_check_reports_faults_and_fails(tmp_path: Path) -> None:
    async with cluster() as on:
        agent = OwnAgent(on.server, "demo-1")
        agent.key_file.write_text("agk_wrong\n")
        agent.key_file.chmod(0o600)
        dial = ["--server", on.server.url, "--key-file", str(agent.key_file), "--demo-node", "1"]
        code, seen = await checked(*dial)
        assert (code, seen["key and protocol"]["grade"]) == (1, "fail")
    code, seen = await checked("--server", "http://127.0.0.1:1", "--demo-node", "1")
    assert (code, seen["reach of the server"]["grade"]) == (1, "fail")
    bad = tmp_path / "bad.toml"
    bad.write_text("slot_name = 3")
    code, seen = await checked("--accelerators", str(bad), "--data-folder", str(on.server.folder))
    assert (code, seen["devices"]["grade"]) == (1, "fail")
    assert str(bad) in seen["devices"]["seen"]
    code, seen = await checked("--accelerators", str(ACCELERATORS / "two_gpus.toml"), "--job-user", "no-such-account")
    assert (code, seen["accounts of jobs"]["grade"]) == (1, "fail")
    assert "2 x cuda" in seen["devices"]["seen"]


def socket_url(on: Cluster) -> str:
    return on.server.url.replace("http", "ws", 1) + PATH
