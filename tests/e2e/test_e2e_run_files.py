"""`aliquot run`: files of sessions, submitted atomically, in the order of their dependencies."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aliquot.cli.acceptance.processes import OwnServer
from e2e_sessions import until_state

pytestmark = pytest.mark.anyio

GRAPH = """
sessions:
  second: {command: 'cat $0 && echo second >> FILE', after: first}
  first: {command: 'echo first >> FILE'}
  never: {command: 'echo never >> FILE', after-failed: first}
"""


async def cli(server: OwnServer, *words: str) -> tuple[int, str, str]:
    """Exit code and output of a command."""
    place = {"ALIQUOT_SERVER": server.url, "ALIQUOT_TOKEN_FILE": str(server.data_folder / "token")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aliquot", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **place},
    )
    printed, errors = await process.communicate()
    return process.returncode or 0, printed.decode(), errors.decode()


async def test_a_graph_runs_in_order_and_a_dry_run_submits_nothing(two_gpus: OwnServer) -> None:
    marks = two_gpus.folder / "marks"
    marks.touch()
    marks.chmod(0o666)
    file = two_gpus.folder / "jobs.yaml"
    file.write_text(GRAPH.replace("FILE", str(marks)).replace("cat $0 && ", ""))
    code, printed, errors = await cli(two_gpus, "run", str(file), "--dry-run")
    assert code == 0, errors
    assert "second, after first:" in printed
    assert "it would start now" in printed
    async with two_gpus.client() as client:
        assert (await client.sessions(first=10)).total_count == 0
        code, printed, errors = await cli(two_gpus, "run", str(file), "--json")
        assert code == 0, errors
        told = {session["name"]: session["id"] for session in map(json.loads, printed.splitlines())}
        await until_state(client, told["second"], "completed")
        assert marks.read_text() == "first\nsecond\n"
        await until_state(client, told["never"], "canceled", "failed")


async def test_a_run_file_with_errors_submits_nothing_and_the_errors_are_located(
    two_gpus: OwnServer, tmp_path: Path
) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text("sessions:\n  good: {command: 'true'}\n  bad:\n    command: 'true'\n    retrys: 3\n")
    code, _, errors = await cli(two_gpus, "run", str(file))
    assert (code, "jobs.yaml:5: sessions.bad.retrys: unknown key" in errors) == (2, True)
    file.write_text("sessions:\n  good: {command: 'true'}\n  bad: {command: 'true', resources: {gpu: 100}}\n")
    code, _, errors = await cli(two_gpus, "run", str(file))
    assert code == 3
    async with two_gpus.client() as client:
        assert (await client.sessions(first=10)).total_count == 0
    code, printed, _ = await cli(two_gpus, "run", "--schema")
    assert code == 0
    assert json.loads(printed)["title"] == "Sessions of Aliquot"
