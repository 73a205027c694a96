"""Sessions with `--image` through a real server, local and remote agents, and Podman of an ordinary account."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_harness import marked_processes
from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnAgent, OwnServer
from aliquot.client import Client
from aliquot_schema.ids import SessionId, kernel_id
from e2e_sessions import output_of, session, submit, until, until_state
from long_tests import LONG
from own_containers import ACCOUNT, IMAGE, MISSING, Containers, containers, end_job, served
from own_terminal import piped

pytestmark = [pytest.mark.anyio, LONG]
CANCEL = "mutation ($id: ID!) { cancel_session(input: { id: $id }) { __typename } }"
WAITS = "sh -c 'echo ready; while ! test -e go; do sleep 0.05; done; exit 4'"
SLEEPS = "echo ready; sleep 1000; echo never"


@pytest.fixture(scope="module")
def podman() -> Iterator[Containers]:
    with containers(as_root=False) as found:
        yield found


async def created(client: Client, shell: str, **more: Any) -> str:
    return await submit(client, shell, {"cpu": "1"}, image=IMAGE, **more)


async def until_ready(client: Client, id: str) -> None:
    await until_state(client, id, "running")
    async for chunk in client.logs(id):
        if "ready" in chunk.text:
            return
    raise AssertionError(await session(client, id))


async def cancel(client: Client, id: str) -> None:
    """Cancel, and wait until the session holds nothing any more."""
    await client.change(CANCEL, {"id": id})

    async def has_ended() -> bool:
        return all(kernel["state"] == "exited" for kernel in (await session(client, id))["kernels"])

    await until(has_ended)


def pids(id: str) -> list[int]:
    return marked_processes(kernel_id(SessionId(id), attempt=1, rank=0))


async def test_a_session_of_the_command_line_runs_in_its_image_with_the_uploaded_folder(
    podman: Containers, tmp_path: Path
) -> None:
    (tmp_path / "main.sh").write_text('echo "$WORD from $(busybox | head -1 | cut -c1-7)"; echo 1 > $RESULT_DIR/one\n')
    async with served(podman) as (server, client):
        place = {"ALIQUOT_SERVER": server.url, "ALIQUOT_TOKEN_FILE": str(server.data_folder / "token")}
        words = ("session", "create", "-r", "cpu=1", "--image", IMAGE, "--env", "WORD=hello", "--sync", str(tmp_path))
        code, printed, errors = await piped(*words, "--", "sh", "main.sh", given=b"", environment=place)
        assert code == 0, errors
        id = printed.decode().split()[0].rstrip(":")
        found = await until_state(client, id, "completed", "failed")
        assert (found["state"], await output_of(client, id)) == ("completed", "hello from BusyBox\n"), found
        code, printed, errors = await piped("session", "files", id, given=b"", environment=place)
        assert code == 0, errors
        assert b"one" in printed
        code, printed, errors = await piped("agents", "list", "--json", given=b"", environment=place)
        assert '"containers": "podman"' in json.dumps(json.loads(printed))


async def test_failed_container_sessions_show_the_reason(podman: Containers) -> None:
    async with served(podman) as (_, client):
        missing = await submit(client, "true", {"cpu": "1"}, image=MISSING)
        own = await created(client, "echo problem; exit 3")
        late = await created(client, SLEEPS, time_limit=1.0)
        found = await until_state(client, missing, "failed")
        assert found["failure"]["code"] == "image_not_found"
        assert MISSING in found["failure"]["message"]
        assert found["attempt"] == 1
        found = await until_state(client, own, "failed")
        assert (found["exit_code"], await output_of(client, own)) == (3, "problem\n")
        found = await until_state(client, late, "failed")
        assert found["failure"]["code"] == "time_limit"


async def test_nothing_is_left_of_a_canceled_session(podman: Containers) -> None:
    async with served(podman) as (_, client):
        id = await created(client, SLEEPS)
        await until_ready(client, id)
        assert len(podman.names()) == 1
        assert pids(id)
        await cancel(client, id)
        assert (podman.names(), pids(id)) == ([], [])


async def test_a_container_survives_a_kill_of_the_server(podman: Containers) -> None:
    async with served(podman) as (server, client):
        ids = [await created(client, WAITS), await created(client, SLEEPS)]
        for id in ids:
            await until_ready(client, id)
        names = sorted(podman.names())
        await server.kill()
        assert sorted(podman.names()) == names
        await server.start()
        async with server.client() as again:
            for id in ids:
                assert (await session(again, id))["state"] == "running"
            end_job(server.data_folder, ids[0])
            assert (await until_state(again, ids[0], "failed"))["exit_code"] == 4
            await cancel(again, ids[1])
            assert podman.names() == []


async def test_a_killed_remote_agent_adopts_its_container_after_the_restart(podman: Containers) -> None:
    async with OwnServer("--no-local-agents") as server, server.client() as client:
        agent = OwnAgent(server, "far-1", "--job-user", ACCOUNT)
        await agent.start()
        try:
            await until_joined(client, agents=1)
            id = await created(client, WAITS)
            await until_ready(client, id)
            await agent.stop(9)
            await agent.start()
            end_job(agent.data_folder, id)
            assert (await until_state(client, id, "failed"))["exit_code"] == 4

            async def is_gone() -> bool:
                return podman.names() == []

            await until(is_gone)
        finally:
            await agent.stop()
            podman.clear()


async def test_an_agent_that_holds_the_image_is_preferred(podman: Containers) -> None:
    """One agent runs its jobs as root, which has other images."""
    of_root, of_account = (IMAGE.replace("tiny", name) for name in ("of-root", "of-account"))
    with containers(as_root=True) as root:
        root.podman("tag", IMAGE, of_root)
        podman.podman("tag", IMAGE, of_account)
        try:
            assert await _agents_of(of_root, of_account) == ["z-root", "a-account"]
        finally:
            root.podman("untag", IMAGE, of_root)
            podman.podman("untag", IMAGE, of_account)


async def _agents_of(*images: str) -> list[str]:
    """Agents of sessions with the images."""
    async with OwnServer("--no-local-agents") as server, server.client() as client:
        agents = [
            OwnAgent(server, "z-root", "--job-user", "root", "--allow-root-jobs"),
            OwnAgent(server, "a-account", "--job-user", ACCOUNT),
        ]
        try:
            for agent in agents:
                await agent.start()
            await until_joined(client, agents=2)
            ids = [await submit(client, "true", {"cpu": "1"}, image=image) for image in images]
            ended = [await until_state(client, id, "completed", "failed") for id in ids]
        finally:
            for agent in agents:
                await agent.stop()
    assert [one["state"] for one in ended] == ["completed"] * len(images), ended
    return [one["kernels"][0]["agent_id"] for one in ended]
