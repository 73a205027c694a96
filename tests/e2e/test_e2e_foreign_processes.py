"""A real server on stand-ins for two NVIDIA GPUs, and real processes that use them outside Aliquot."""

import asyncio
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client
from cli_people import Person
from e2e_sessions import session, submit, until, until_state

pytestmark = pytest.mark.anyio

FAKE: Final = Path(__file__).parents[1] / "execution" / "devices" / "fake_nvml.c"
FIRST: Final = "GPU-00000000-aaaa-0000-0000-000000000000"
SECOND: Final = "GPU-11111111-bbbb-0000-0000-000000000000"
DEVICES: Final = "{ agents { edges { node { devices { id kind foreign_usage foreign_users } } } } }"
CUSTOM: Final = """
import aliquot.execution.devices.nvml_devices as readings
import aliquot.service.agents.reaper as reaper
readings.in_initial_pid_namespace = lambda proc: True
reaper.INTERVAL_S = 1.0
"""
"""A container's pids are not the driver's; those of the stand-in are. Inspections are frequent, to save time."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build the stand-in for NVIDIA's library")
    path = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, FAKE, "-ldl"], check=True, timeout=120)
    return path


@pytest.fixture
def machine(library: Path) -> Iterator[Path]:
    """A folder with the library, in which `holders/GPU/PID` is a process on a GPU with its memory."""
    folder = Path(tempfile.mkdtemp(prefix="aliquot-gpus-"))
    shutil.copy(library, folder)
    for gpu in "01":
        (folder / "holders" / gpu).mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(CUSTOM)
    yield folder
    shutil.rmtree(folder)


@asynccontextmanager
async def served(machine: Path, **settings: str) -> AsyncIterator[tuple[OwnServer, Client]]:
    paths = {"LD_LIBRARY_PATH": str(machine), "PYTHONPATH": str(machine)}
    async with OwnServer(environment=paths | settings) as server, server.client() as client:
        yield server, client


@asynccontextmanager
async def stranger(machine: Path, *, gpu: int) -> AsyncIterator[str]:
    """A process on a GPU that Aliquot did not start; yields the account that it runs as."""
    account = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    change: dict[str, Any] = {"user": account.pw_uid, "group": account.pw_gid} if os.geteuid() == 0 else {}
    process = await asyncio.create_subprocess_exec("/bin/sleep", "600", **change)
    mark = machine / "holders" / str(gpu) / str(process.pid)
    mark.write_text(str(3 * 2**30))
    try:
        yield account.pw_name
    finally:
        mark.unlink()
        process.kill()
        await process.wait()


async def gpus(client: Client) -> dict[str, tuple[bool, list[str]]]:
    """Whether each GPU is withheld, and who uses it outside."""
    (edge,) = (await client.execute(DEVICES))["agents"]["edges"]
    return {
        device["id"]: (device["foreign_usage"], device["foreign_users"])
        for device in edge["node"]["devices"]
        if device["kind"] == "cuda"
    }


async def until_gpus(client: Client, wanted: dict[str, tuple[bool, list[str]]]) -> None:
    async def same() -> bool:
        return await gpus(client) == wanted

    await until(same)


async def waits(client: Client, session_id: str) -> dict[str, Any]:
    async def found() -> dict[str, Any] | None:
        waiting: dict[str, Any] | None = (await session(client, session_id))["waits"]
        return waiting

    return dict(await until(found))


async def test_a_gpu_that_a_stranger_uses_shows_them_and_takes_nothing_new_until_they_leave(
    machine: Path, tmp_path: Path
) -> None:
    async with served(machine) as (server, client):
        async with stranger(machine, gpu=0) as account:
            await until_gpus(client, {FIRST: (True, [account]), SECOND: (False, [])})
            both = await submit(client, "exec sleep 600", {"cuda.device": "2"})
            said = (await waits(client, both))["message"]
            assert f" 1 GPU takes nothing new, because foreign processes of {account} use it." in said
            one = await submit(client, "exec sleep 600", {"cuda.shares": "0.5"})
            await until_state(client, one, "running")
            assert f"used by foreign processes of {account}" in Person.at(server, home=tmp_path).run("gpus").out
            Person.at(server, home=tmp_path).run("session", "cancel", one)
            await until_state(client, one, "canceled")
        await until_state(client, both, "running")
        assert await gpus(client) == {FIRST: (False, []), SECOND: (False, [])}


async def test_beside_a_job_on_a_part_of_a_gpu_a_stranger_is_seen_and_the_job_is_not(machine: Path) -> None:
    async with served(machine) as (_, client):
        script = f"echo {2**30} > {machine}/holders/1/$$; exec sleep 600"
        (machine / "holders" / "1").chmod(0o777)
        job = await submit(client, script, {"cuda.shares": "0.5"})
        await until_state(client, job, "running")
        async with stranger(machine, gpu=1) as account:
            await until_gpus(client, {FIRST: (False, []), SECOND: (True, [account])})
        await until_gpus(client, {FIRST: (False, []), SECOND: (False, [])})
        assert (await session(client, job))["state"] == "running"


async def test_where_foreign_usage_is_ignored_the_gpu_is_given_away_and_the_stranger_is_shown(machine: Path) -> None:
    async with served(machine, ALIQUOT_FOREIGN_USAGE="ignore") as (_, client), stranger(machine, gpu=0) as account:
        await until_gpus(client, {FIRST: (False, [account]), SECOND: (False, [])})
        await until_state(client, await submit(client, "exec sleep 600", {"cuda.device": "2"}), "running")
