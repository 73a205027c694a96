"""A real server on two fake NVIDIA GPUs, and real processes that use them outside Aliquot."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client
from cli_users import CliUser
from e2e_sessions import session, submit, until, until_state
from own_processes import foreign_process

pytestmark = pytest.mark.anyio

FIRST: Final = "GPU-00000000-aaaa-0000-0000-000000000000"
SECOND: Final = "GPU-11111111-bbbb-0000-0000-000000000000"
DEVICES: Final = "{ agents { edges { node { devices { id kind foreign_usage foreign_users } } } } }"


@asynccontextmanager
async def served(machine: Path, **settings: str) -> AsyncIterator[tuple[OwnServer, Client]]:
    paths = {"LD_LIBRARY_PATH": str(machine), "PYTHONPATH": str(machine)}
    async with OwnServer(environment=paths | settings) as server, server.client() as client:
        yield server, client


async def gpus(client: Client) -> dict[str, tuple[bool, list[str]]]:
    """By GPU: whether it is withheld, and its foreign users."""
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


async def test_a_gpu_used_by_a_foreign_process_is_shown_and_gets_no_session_until_it_ends(
    machine: Path, tmp_path: Path
) -> None:
    async with served(machine) as (server, client):
        async with foreign_process(machine, gpu=0) as account:
            await until_gpus(client, {FIRST: (True, [account]), SECOND: (False, [])})
            both = await submit(client, "exec sleep 600", {"cuda.device": "2"})
            said = (await waits(client, both))["message"]
            assert f" 1 GPU takes nothing new, because foreign processes of {account} use it." in said
            one = await submit(client, "exec sleep 600", {"cuda.shares": "0.5"})
            await until_state(client, one, "running")
            assert f"used by foreign processes of {account}" in CliUser.at(server, home=tmp_path).run("gpus").out
            CliUser.at(server, home=tmp_path).run("session", "cancel", one)
            await until_state(client, one, "canceled")
        await until_state(client, both, "running")
        assert await gpus(client) == {FIRST: (False, []), SECOND: (False, [])}


async def test_a_foreign_process_is_distinguished_from_a_job_on_a_shared_gpu(machine: Path) -> None:
    async with served(machine) as (_, client):
        script = f"echo {2**30} > {machine}/holders/1/$$; exec sleep 600"
        (machine / "holders" / "1").chmod(0o777)
        job = await submit(client, script, {"cuda.shares": "0.5"})
        await until_state(client, job, "running")
        async with foreign_process(machine, gpu=1) as account:
            await until_gpus(client, {FIRST: (False, []), SECOND: (True, [account])})
        await until_gpus(client, {FIRST: (False, []), SECOND: (False, [])})
        assert (await session(client, job))["state"] == "running"


async def test_with_foreign_usage_ignored_a_gpu_is_granted_and_the_foreign_process_is_shown(machine: Path) -> None:
    async with (
        served(machine, ALIQUOT_FOREIGN_USAGE="ignore") as (_, client),
        foreign_process(machine, gpu=0) as account,
    ):
        await until_gpus(client, {FIRST: (False, [account]), SECOND: (False, [])})
        await until_state(client, await submit(client, "exec sleep 600", {"cuda.device": "2"}), "running")
