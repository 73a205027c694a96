"""Five tasks of a new user in the shell, each in at most two commands."""

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from aliquot.cli.acceptance.processes import OwnServer
from docs_running import shell_environment
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio


class Shell:
    """A new user's command line, which counts the commands."""

    def __init__(self, server: OwnServer, home: Path) -> None:
        self._environment = shell_environment(server, home)
        self._home = home
        self.commands = 0

    def __call__(self, *words: str) -> str:
        self.commands += 1
        argv = [sys.executable, "-m", "aliquot", *words]
        done = subprocess.run(
            argv, env=self._environment, cwd=self._home, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def live(anyio_backend: str) -> AsyncIterator[OwnServer]:
    """A demo with a week of history."""
    async with OwnServer("--demo-live") as server:
        yield server


@pytest.fixture
def shell(live: OwnServer, tmp_path: Path) -> Shell:
    return Shell(live, tmp_path)


async def test_submit_a_job_and_read_its_log(shell: Shell) -> None:
    assert "what it prints" in shell("session", "create", "-r", "cpu=1", "--follow", "--", "echo", "what it prints")
    assert shell.commands == 1


async def test_see_why_a_session_waits_and_what_would_help(live: OwnServer, shell: Shell) -> None:
    async with live.client() as client:
        await submit(client, "sleep 600", {"cuda.device": "8"}, name="mine", cluster_size=2)
    said = shell("why", "mine")
    assert "would start" in said.lower(), said
    assert shell.commands == 1


async def test_see_which_session_holds_a_gpu_and_until_when(live: OwnServer, shell: Shell) -> None:
    async with live.client() as client:
        held = await submit(client, "sleep 600", {"cuda.shares": "0.1"}, name="held", time_limit=900.0)
        await until_state(client, held, "running")
    [line] = [line for line in shell("gpus").splitlines() if held in line]
    assert line.startswith("cuda")
    assert f"root 0.10 {held} until 2" in line
    assert shell.commands == 1


async def test_get_a_link_to_the_failed_tasks_of_an_array(live: OwnServer, shell: Shell) -> None:
    async with live.client() as client:
        array = await submit(client, "exit $((ALIQUOT_ARRAY_INDEX % 2))", {"cpu": "1"}, name="halves", array="0-5")
        await until_state(client, array, "failed")
    [line] = [line for line in shell("session", "show", "halves").splitlines() if line.startswith("failed tasks")]
    address = urlsplit(line.split()[-1])
    assert (f"{address.scheme}://{address.netloc}", address.path) == (live.url, "/sessions")
    assert parse_qs(address.query) == {"state": ["failed"], "array": [array]}
    assert shell.commands == 1


async def test_raise_a_quota_after_trying_it_on_the_last_week(shell: Shell) -> None:
    change = ("quota", "set", "project:robotics", "--max", "gpu=8")
    tried = shell(*change, "--try", "7d")
    assert "as it was decided" in tried
    assert "with the quota of project:robotics" in tried
    assert "--max cuda.device=8" in shell(*change)
    assert shell.commands == 2
