"""A server's history: read over its API, saved, and run on its agents."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from typer.testing import CliRunner, Result

from aliquot.cli import main
from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.acceptance.run import CREATE
from aliquot.cli.trace_files import read_jobs
from aliquot.client import Client

pytestmark = pytest.mark.anyio

ENDED = "query { sessions(filter: { states: [completed, failed, canceled] }, first: 1) { total_count } }"
SESSIONS = 103
"""More than one page."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def server(anyio_backend: str) -> AsyncIterator[OwnServer]:
    async with OwnServer("--demo") as found:
        async with found.client() as client:
            await until_joined(client, agents=2)
        yield found


async def test_the_history_of_a_server_is_simulated_on_its_agents(server: OwnServer, tmp_path: Path) -> None:
    async with server.client() as client:
        for number in range(SESSIONS):
            await submit(client, number)
        await until_ended(client)
    saved = tmp_path / "history.csv"
    outcome = await simulated(server, "--references", "--save", str(saved), "--json")
    assert outcome.exit_code == 0, outcome.output
    assert f"read {SESSIONS} sessions and 2 agents" in outcome.stderr
    figures = json.loads(outcome.stdout)
    assert {row["jobs"] for row in figures.values()} == {SESSIONS}
    jobs = read_jobs(saved)
    assert dict(jobs[0].request) == {"cpu": 2, "cuda.shares": 500, "mem": 2**30}
    assert [jobs[0].cluster_size, jobs[1].cluster_size] == [2, 1]
    assert [jobs[0].limit_ms, jobs[1].limit_ms] == [60_000, None]
    assert {job.program for job in jobs} == {"true"}
    assert all(job.duration_ms < 60_000 for job in jobs)
    again = await anyio.to_thread.run_sync(CliRunner().invoke, main, ["simulate", str(saved), "--gpus", "1", "--json"])
    assert json.loads(again.stdout)["fair_share"]["jobs"] == SESSIONS


async def test_a_server_without_history_says_so(server: OwnServer) -> None:
    outcome = await simulated(server)
    assert outcome.exit_code == 2
    assert "has run and ended yet" in outcome.stderr


async def test_a_wrong_token_or_address_is_reported(server: OwnServer, tmp_path: Path) -> None:
    path = tmp_path / "token"
    for text, message in (("x" * 43, "does not accept this token"), ("\n", "does not contain a token")):
        path.write_text(text)
        outcome = await simulated(server, token_file=path)
        assert outcome.exit_code == 2
        assert message in outcome.stderr
    await server.stop()
    outcome = await simulated(server)
    assert outcome.exit_code == 2
    assert server.url in outcome.stderr


async def submit(client: Client, number: int) -> None:
    """The first is a gang with a limit; each other one takes only a share of a GPU."""
    host = [{"slot": "cpu", "amount": "2"}, {"slot": "mem", "amount": "1g"}] if number == 0 else []
    request = {
        "command": {"argv": ["true"]},
        "slots": [*host, {"slot": "cuda.shares", "amount": "0.5"}],
        "cluster_size": 2 if number == 0 else 1,
        "time_limit": 60 if number == 0 else None,
    }
    await client.change(CREATE, {"input": request})


async def until_ended(client: Client) -> None:
    with anyio.fail_after(120):
        while True:
            if (await client.execute(ENDED))["sessions"]["total_count"] == SESSIONS:
                return
            await anyio.sleep(0.05)


async def simulated(server: OwnServer, *options: str, token_file: Path | None = None) -> Result:
    path = token_file or server.data_folder / "token"
    command = ["simulate", "--server", server.url, "--token-file", str(path), *options]
    # It runs an event loop of its own.
    return await anyio.to_thread.run_sync(CliRunner().invoke, main, command)
