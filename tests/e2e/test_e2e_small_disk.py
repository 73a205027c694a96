"""A server whose disk fills up: launches stop before commits fail; both resume when there is space."""

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aliquot.cli import main
from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer, ServerFailed
from aliquot.client import Client, ClientFailure
from e2e_sessions import session, submit, until, until_state
from e2e_small_disk import fill, read_only, small_disk

pytestmark = pytest.mark.anyio

ACCELERATORS = Path(__file__).parents[1] / "data" / "accelerators"
MIB = 2**20
ONE = {"cuda.device": "1"}


@pytest.fixture
async def server() -> AsyncIterator[OwnServer]:
    own = OwnServer("--accelerators", str(ACCELERATORS / "two_gpus.toml"), environment={"ALIQUOT_DISK_FLOOR": "64m"})
    with small_disk(own.data_folder, megabytes=256):
        async with own:
            async with own.client() as client:
                await until_joined(client, agents=1)
            yield own


def ready(server: OwnServer) -> dict[str, Any]:
    asked = urllib.request.Request(f"{server.url}/readyz", headers={"Authorization": f"Bearer {server.token}"})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return dict(json.load(answer))


async def until_warned(server: OwnServer, *, warned: bool) -> None:
    async def look() -> bool:
        return ("disk_low" in ready(server)["warnings"]) == warned

    await until(look)


async def test_below_the_free_space_floor_submissions_are_accepted_and_nothing_is_launched(server: OwnServer) -> None:
    async with server.client() as client:
        await until_state(client, await submit(client, "true", ONE), "completed")
        ballast = fill(server.data_folder, leaving=32 * MIB)
        await until_warned(server, warned=True)
        assert "must stay free" in ready(server)["details"][0]["message"]
        asking = ("--server", server.url, "--token-file", str(server.data_folder / "token"))
        done = await asyncio.to_thread(CliRunner().invoke, main, ["doctor", *asking])
        assert (done.exit_code, "must stay free" in done.output) == (1, True)
        assert "1 agent examined, 0 differences, 2 problems of the server" in done.output
        waiting = await submit(client, "true", ONE)

        async def explained() -> bool:
            waits = (await session(client, waiting))["waits"]
            return waits is not None and "launches are paused: the disk of" in waits["message"]

        await until(explained)
        ballast.unlink()
        assert (await until_state(client, waiting, "completed"))["attempt"] == 1
        await until_warned(server, warned=False)


async def test_a_full_disk_loses_nothing_that_was_acknowledged(server: OwnServer) -> None:
    acknowledged: list[str] = []
    async with server.client() as client:
        ballast = fill(server.data_folder, leaving=0)
        with pytest.raises(ClientFailure, match="disk"):
            await submit_on_and_on(client, acknowledged)
        ballast.unlink()
        acknowledged.append(await submit(client, "true", ONE))
        for session_id in acknowledged:
            await until_state(client, session_id, "completed")


async def submit_on_and_on(client: Client, acknowledged: list[str]) -> None:
    for _ in range(5000):
        acknowledged.append(await submit(client, "true #" + 10_000 * "x", ONE))


async def test_a_full_disk_at_the_first_start_is_reported_and_a_later_start_succeeds() -> None:
    own = OwnServer("--accelerators", str(ACCELERATORS / "two_gpus.toml"))
    with small_disk(own.data_folder, megabytes=64):
        ballast = fill(own.data_folder, leaving=0)
        with pytest.raises(ServerFailed, match=r"aliquot cannot start: .*(No space left|disk is full)"):
            await own.start()
        ballast.unlink()
        async with own:
            assert ready(own)["ready"]


async def test_a_read_only_data_folder_is_reported_and_left_unchanged() -> None:
    own = OwnServer("--accelerators", str(ACCELERATORS / "two_gpus.toml"))
    with small_disk(own.data_folder, megabytes=64) as disk:
        await own.start()
        await own.stop()
        files = contents(disk)
        with read_only(disk), pytest.raises(ServerFailed, match=r"data-folder: .*Read-only file system"):
            await own.start()
        assert contents(disk) == files
        async with own:
            assert ready(own)["ready"]


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
