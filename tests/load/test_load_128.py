"""128 running sessions, 500 pending, and fifty users cancelling and raising priorities throughout."""

import asyncio
import os
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from aliquot.cli.acceptance.checks import MapCheck, live_kernels
from aliquot.cli.acceptance.cluster_view import read_cluster
from aliquot.client import Client
from load_cluster import check_log, load_server, wait_until
from load_users import USERS_COUNT, change_sessions_forever, load_users, submit_all

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

AT_ONCE = 128
QUEUED = 500
HALF = {"cuda.shares": "0.5"}
STATES = "query ($states: [SessionState!]) { sessions(filter: { states: $states }, first: 1) { total_count } }"


async def counted(client: Client, *states: str) -> int:
    answer = await client.execute(STATES, {"states": list(states)})
    return int(answer["sessions"]["total_count"])


@pytest.mark.timeout(600)
async def test_128_sessions_run_while_500_wait_and_users_cancel_and_change_priorities(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    async with load_server(tmp_path) as server, server.client() as client, load_users(server, client) as people:
        gate = _gate(server.folder / "gate")
        first: dict[str, str] = {}
        rest: dict[str, str] = {}
        await submit_all(people, f"cat {gate}", count=AT_ONCE, owners=first, slots=HALF)

        async def all_run() -> bool:
            return len(live_kernels(server.data_folder)) == AT_ONCE and await counted(client, "running") == AT_ONCE

        await wait_until(all_run)
        meddling = asyncio.create_task(change_sessions_forever(people, rest, counts))
        check = MapCheck(client=client, data_folder=server.data_folder)
        await submit_all(people, "sleep 0.2", count=QUEUED, owners=rest, slots=HALF)
        await check.compare()
        assert check.from_processes_alone == 1
        os.close(os.open(gate, os.O_WRONLY))

        async def all_ended() -> bool:
            assert not meddling.done(), meddling.exception()
            return await counted(client, "completed", "failed", "canceled") == AT_ONCE + QUEUED

        await wait_until(all_ended)
        meddling.cancel()
        with suppress(asyncio.CancelledError):
            await meddling

        async def is_idle() -> bool:
            return (await read_cluster(client)).is_idle

        await wait_until(is_idle)
        await check.compare()
        assert check.differences == []
        assert live_kernels(server.data_folder) == {}
        assert await counted(client, "failed") == 0
        await server.stop()
        model = check_log(server.data_folder / "server" / "aliquot.db")
    model.charges.check_all_settled()
    assert len(model.sessions) == AT_ONCE + QUEUED
    assert {session.id: session.owner for session in model.sessions.values()} == first | rest
    assert {user for _, user in model.charges.accounts} == set(people)
    assert len(people) == USERS_COUNT
    assert counts["forbidden"] > 5
    assert model.kinds["session.canceled"] > 5
    assert model.kinds["session.priority_changed"] > 5


def _gate(path: Path) -> Path:
    """A FIFO: a reader blocks until it is opened for writing."""
    os.mkfifo(path)
    path.chmod(0o666)
    return path
