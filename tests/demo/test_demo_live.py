"""The living demo for a new user: every page shows data immediately, and their own job starts beside it."""

import asyncio
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from aliquot.cli.acceptance.checks import live_kernels
from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client
from aliquot.clock import SystemClock
from aliquot.demo.scenario import PEOPLE
from aliquot.execution.devices.mock import LEVEL_PCT
from e2e_sessions import submit, until, until_state

pytestmark = pytest.mark.anyio

SEEN = """
query {
  orchestrator { is_demo }
  users { name projects }
  usage_history(by: user) { warning series { name gpu_hours utilization } }
  cluster { gpus { id utilization allocated allocated_to { user } } }
  queue(first: 50) { edges { node { session { name waits { reason } } } } }
  sessions(filter: {tags: ["demo"]}, first: 1) { total_count }
}
"""
WEEK = "query ($since: DateTime) { queue_history(since: $since, points: 80) { series { metric values } } }"
HELD = "query ($id: String!) { device_holdings(device_id: $id, first: 50) { edges { node { user } } } }"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def live(anyio_backend: str) -> AsyncIterator[OwnServer]:
    async with OwnServer("--demo-live") as server:
        yield server


async def _seen(client: Client, *, is_busy: bool = False) -> dict[str, Any]:
    """What the pages query; with `is_busy`, once most of the cluster is in use and measured."""

    async def look() -> dict[str, Any] | None:
        found = dict(await client.execute(SEEN))
        held = [gpu for gpu in found["cluster"]["gpus"] if gpu["allocated"] == 1]
        working = [gpu for gpu in held if (gpu["utilization"] or 0) > 0]
        if is_busy and (len(working) < 8 or len(working) == len(held) or not found["queue"]["edges"]):
            return None
        return found

    return await until(look)


async def _held_gpus(client: Client) -> list[float] | None:
    """Measured GPUs in use over the last six days, once the week's readings are stored."""
    since = (datetime.fromtimestamp(SystemClock().now_us() / 1e6, UTC) - timedelta(days=6)).isoformat()
    series = (await client.execute(WEEK, {"since": since}))["queue_history"]["series"]
    values = next((one["values"] for one in series if one["metric"] == "gpus_held"), [])
    return [value for value in values if value is not None] if values and None not in values[:-1] else None


async def test_the_demo_has_data_for_every_page(live: OwnServer) -> None:
    async with live.client() as client:
        seen = await _seen(client)
        assert seen["orchestrator"]["is_demo"] is True
        names = {person.name for person in PEOPLE}
        assert {user["name"] for user in seen["users"]} == names
        usage = {series["name"]: series for series in seen["usage_history"]["series"]}
        assert names <= usage.keys()
        assert sum(sum(usage[name]["gpu_hours"]) for name in names) > 100
        assert seen["sessions"]["total_count"] > 100
        held = await until(partial(_held_gpus, client))
        assert 6 < sum(held) / len(held) <= 16
        gpu = seen["cluster"]["gpus"][0]["id"]
        held = (await client.execute(HELD, {"id": gpu}))["device_holdings"]
        assert {edge["node"]["user"] for edge in held["edges"]} <= names
        assert len(held["edges"]) > 10


async def test_the_demo_cluster_has_working_waiting_and_idle_sessions(live: OwnServer) -> None:
    async with live.client() as client:
        seen = await _seen(client, is_busy=True)
        low, high = LEVEL_PCT
        whole = [gpu["utilization"] for gpu in seen["cluster"]["gpus"] if gpu["allocated"] == 1]
        working = [load for load in whole if load]
        assert all(low - 0.1 <= load <= high + 0.1 for load in working), working
        assert len(working) < len(whole), "a notebook holds a GPU and does not use it"
        sessions = [edge["node"]["session"] for edge in seen["queue"]["edges"]]
        reasons = {session["waits"]["reason"] for session in sessions if session["waits"]}  # none before its first pass
        assert reasons <= {"quota", "dependency"}, "what waits does not stand in the way of a newcomer's job"


async def test_a_submitted_job_starts_beside_the_demo_load(live: OwnServer) -> None:
    async with live.client() as client:
        await _seen(client, is_busy=True)
        own = await submit(client, "echo mine", {"cuda.shares": "0.5"}, name="mine")
        assert (await until_state(client, own, "completed"))["exit_code"] == 0
        own = await submit(client, "echo mine", {"cuda.device": "1"}, name="mine")
        await until_state(client, own, "completed")


async def test_demo_jobs_end_with_the_server_and_the_demo_history_is_kept(live: OwnServer) -> None:
    """Last: it restarts the server."""
    folder = live.data_folder / "demo"
    async with live.client() as client:
        await _seen(client, is_busy=True)
    await live.stop()

    async def gone() -> bool | None:
        return None if live_kernels(folder) else True

    await until(gone)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aliquot", "replay", "--data-folder", str(folder), "--last", "100000"),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    assert said.decode().strip().endswith(" 0 differences")
    await live.start()
    async with live.client() as client:
        again = await _seen(client, is_busy=True)
        assert again["orchestrator"]["is_demo"] is True
        assert again["sessions"]["total_count"] > 100
