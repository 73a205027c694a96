"""Upgrade from the previous release with running jobs: both databases, mixed agents and clients; no downgrade."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import PROGRAM, OwnAgent, OwnServer, ServerFailed
from aliquot.client import OtherVersion
from aliquot.service.ledger.entries import code_version
from e2e_scheduling import SchedulingHarness
from e2e_sessions import output_of, submit, until, until_state
from long_tests import LONG
from old_release import OldRelease, old_release
from store_postgres import PostgresCluster

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    LONG,
]

OLD_CLIENT = """
import sys
from aliquot.client import BlockingClient, Refused
with BlockingClient(sys.argv[1], sys.argv[2]) as client:
    done = client.submit(["sh", "-c", "echo printed; exit 3"], slots={"cuda.device": "1"})
    ended = client.wait(done.id)
    print(ended.state, "".join(piece.text for piece in client.logs(done.id)).strip())
    print(sorted(edge.node.id for edge in client.agents().edges))
    try:
        client.submit(["true"], slots={"cuda.device": "1000"})
    except Refused as refused:
        print(refused.code)
"""
OLD_COMMANDS = (
    ("agents", "list"), ("gpus",), ("queue",), ("session", "list"), ("usage",), ("projects",), ("pools",), ("doctor",),
    ("user", "list"), ("quota", "list"), ("policy", "show"), ("notices", "list"), ("session", "list", "--json"),
)  # fmt: skip


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> OldRelease:
    """0.1.0."""
    folder = tmp_path_factory.mktemp("old-release")
    for parent in (folder, *folder.parents[:2]):
        parent.chmod(0o755)  # jobs may run under another account
    return old_release(folder)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> list[str]:
    """The database options."""
    if request.param == "sqlite":
        return []
    postgres: PostgresCluster = request.getfixturevalue("postgres")
    return ["--database", postgres.new_database()]


@pytest.fixture
async def old_server(release: OldRelease, database: list[str]) -> AsyncIterator[OwnServer]:
    """A server of the previous release with two local nodes."""
    server = OwnServer("--demo", *database, program=release.program)
    async with server, server.client() as client:
        await until_joined(client, agents=2)
        yield server


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
async def test_a_server_of_the_previous_release_is_upgraded_while_jobs_run(
    old_server: OwnServer, database: list[str], release: OldRelease, end: signal.Signals
) -> None:
    async with old_server.client() as client:
        harness = SchedulingHarness(old_server, client)
        large = [await _running(harness, f"large{number}", devices="6") for number in range(2)]
        kept = {name: await _running(harness, name) for name in ("a", "b")}
        ended = await _running(harness, "ends-meanwhile")
        waiting = await harness.submit("waiting", devices="8", shell="exit 5")
        after = await harness.submit("after", shell="exit 6", depends_on=[{"session_id": kept["a"]}])
    await (old_server.stop() if end is signal.SIGTERM else old_server.kill())
    harness.end("ends-meanwhile", code=4)
    old_server.program = PROGRAM
    await old_server.start()
    async with old_server.client() as client:
        harness = SchedulingHarness(old_server, client)
        for session_id in (*kept.values(), *large):
            assert (await until_state(client, session_id, "running"))["attempt"] == 1
        gone = await until_state(client, ended, "failed")
        assert (gone["exit_code"], gone["attempt"]) == (4, 1)
        await until_state(client, waiting, "queued")
        fresh = await harness.submit("fresh", shell="echo new; exit 7", priority="critical")
        assert (await until_state(client, fresh, "failed"))["exit_code"] == 7
        assert await output_of(client, fresh) == "new\n"
        for name in ("a", "b", "large0", "large1"):
            harness.end(name, code=0 if name == "a" else 9)
        for session_id, code in ((kept["a"], 0), (kept["b"], 9), (waiting, 5), (after, 6)):
            last = await until_state(client, session_id, "completed", "failed")
            assert (last["exit_code"], last["attempt"]) == (code, 1)
    assert await old_server.stop() == 0
    await _check_records(old_server, database)
    await _check_refused(old_server, release)


async def test_agents_of_the_previous_release_work_with_a_new_server_and_can_be_upgraded(
    release: OldRelease,
) -> None:
    async with OwnServer("--no-local-agents", program=release.program) as server, AsyncExitStack() as stack:
        agents = [
            OwnAgent(server, f"demo-{place}", "--demo-node", str(place), program=release.program) for place in (1, 2)
        ]
        for agent in agents:
            await agent.start()
            stack.push_async_callback(agent.stop)
        async with server.client() as client:
            await until_joined(client, agents=2)
            first = await _running(SchedulingHarness(server, client), "first", devices="8")
        await server.stop()
        server.program = PROGRAM
        await server.start()
        async with server.client() as client:
            harness = SchedulingHarness(server, client)
            await until_joined(client, agents=2)
            second = await _running(harness, "second", devices="8")
            for agent, name, session_id in zip(agents, ("first", "second"), (first, second), strict=True):
                await agent.stop(signal.SIGKILL if name == "second" else signal.SIGTERM)
                agent.program = PROGRAM
                await agent.start()
                await until(lambda agent=agent: _is_connected(agent))
                harness.end(name, code=3)
                ended = await until_state(client, session_id, "failed")
                assert (ended["exit_code"], ended["attempt"]) == (3, 1)


async def test_a_new_agent_works_with_a_server_of_the_previous_release(release: OldRelease) -> None:
    async with OwnServer("--no-local-agents", program=release.program) as server, server.client() as client:
        agent = OwnAgent(server, "demo-1", "--demo-node", "1")
        await agent.start()
        try:
            await until_joined(client, agents=1)
            done = await submit(client, "echo old; exit 3", {"cuda.device": "8"})
            assert (await until_state(client, done, "failed"))["exit_code"] == 3
            assert await output_of(client, done) == "old\n"
        finally:
            assert await agent.stop() == 0


async def test_servers_of_two_releases_never_share_a_database(release: OldRelease, postgres: PostgresCluster) -> None:
    """Neither beside an old leader or follower, nor beside a new one; jobs keep running."""
    options = ("--no-local-agents", "--database", await asyncio.to_thread(postgres.new_database))
    leader = OwnServer(*options, program=release.program)
    async with leader, leader.client() as client, AsyncExitStack() as stack:
        follower, new = OwnServer(*options, program=release.program), OwnServer(*options)
        follower.data_folder = new.data_folder = leader.data_folder
        await stack.enter_async_context(follower)
        servers = [option for server in (follower, new) for option in ("--server", server.url)]
        agent = OwnAgent(leader, "demo-1", "--demo-node", "1", *servers, program=release.program)
        await agent.start()
        stack.push_async_callback(agent.stop)
        await until_joined(client, agents=1)
        harness = SchedulingHarness(leader, client)
        job = await _running(harness, "job")
        for left in ((leader, follower), (follower,)):
            await _until_refused(new, *(server.url for server in left))
            async with left[-1].client() as still:
                await until_state(still, job, "running")
            await leader.kill()  # the follower takes over
        await _until_leading(follower)
        await _until_refused(new, follower.url)
        async with follower.client() as still:
            await until_state(still, job, "running")
        await follower.stop()
        await stack.enter_async_context(new)
        with pytest.raises(ServerFailed, match="restore the backup"):
            await leader.start()
        async with new.client() as upgraded:
            await until_joined(upgraded, agents=1)
            harness.end("job", code=3)
            ended = await until_state(upgraded, job, "failed")
            assert (ended["exit_code"], ended["attempt"]) == (3, 1)


async def test_clients_of_the_previous_release_work_with_a_new_server(release: OldRelease) -> None:
    async with OwnServer("--demo") as server, server.client() as client:
        await until_joined(client, agents=2)
        told = await asyncio.to_thread(release.script, OLD_CLIENT, server.url, server.token)
        assert told.splitlines() == ["failed printed", "['demo-1', 'demo-2']", "impossible_request"]
        for words in OLD_COMMANDS:
            done = await asyncio.to_thread(release.run, *words, *_known(server))
            assert done.returncode == 0, (words, done.stderr)
        followed = ("session", "create", *_known(server), "-r", "cuda.device=1", "--follow", "--", "echo", "told")
        done = await asyncio.to_thread(release.run, *followed)
        assert (done.returncode, done.stdout) == (0, "told\n")


async def test_a_new_client_reports_the_other_version_of_a_server_of_the_previous_release(release: OldRelease) -> None:
    async with OwnServer("--demo", program=release.program) as server, server.client() as client:
        await until_joined(client, agents=2)
        with pytest.raises(OtherVersion, match="upgrade the older side"):
            await client.submit(["true"], slots={"cuda.device": "1"})
        for words in (("gpus",), ("queue",), ("session", "list")):
            code, said = await _aliquot(*words, *_known(server))
            assert (code, said.count("\n")) == (3, 1), said
            assert "the server has another version of Aliquot and does not know this request" in said


async def _running(harness: SchedulingHarness, name: str, *, devices: str = "1") -> str:
    session_id = await harness.submit(name, devices=devices)
    await until_state(harness.client, session_id, "running")
    return session_id


async def _until_refused(server: OwnServer, *beside: str) -> None:
    """The new release refuses to start beside these servers; a killed one expires in seconds."""

    async def look() -> bool:
        with pytest.raises(ServerFailed, match="servers of the older release run on this database") as refused:
            await server.start()
        assert "the server ended with 2" in str(refused.value)
        said = str(refused.value).rpartition("the older release run")[2]
        return all(url in said for url in beside) and said.count("http://") == len(beside)

    await until(look)


async def _until_leading(server: OwnServer) -> None:
    async with server.client() as client:

        async def look() -> bool:
            return bool((await client.execute("{ orchestrator { role } }"))["orchestrator"]["role"] == "leader")

        await until(look)


async def _is_connected(agent: OwnAgent) -> bool:
    return agent.log().count(" is connected to ") >= 2


async def _check_records(server: OwnServer, database: list[str]) -> None:
    """The old release's records are intact, and its passes can be replayed."""
    place = ("--data-folder", str(server.data_folder), *database)
    for words in (("db", "check"), ("audit", "verify")):
        code, said = await _aliquot(*words, *place)
        assert code == 0, said
    code, said = await _aliquot("replay", "--last", "10000", *place)
    assert code in (0, 1), said
    assert "were decided by another version of Aliquot, 0.1.0+" in said
    assert code_version() in said


async def _check_refused(server: OwnServer, release: OldRelease) -> None:
    """The previous release refuses the upgraded data, and changes nothing."""
    server.program = release.program
    with pytest.raises(ServerFailed, match="restore the backup") as refused:
        await server.start()
    assert "the server ended with 2" in str(refused.value)
    server.program = PROGRAM
    await server.start()
    async with server.client() as client:
        await until_joined(client, agents=2)


def _known(server: OwnServer) -> tuple[str, ...]:
    return ("--server", server.url, "--token-file", str(server.data_folder / "token"))


async def _aliquot(*words: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aliquot", *words), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    printed, _ = await process.communicate()
    return process.returncode or 0, printed.decode()
