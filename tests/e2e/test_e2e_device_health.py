"""Device health: faults injected into a fake NVIDIA library, and the effects on sessions."""

from pathlib import Path
from typing import Any

import pytest

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client
from devices_driver import compiled
from e2e_sessions import submit, until, until_state

pytestmark = pytest.mark.anyio

FIRST = "GPU-00000000-aaaa-0000-0000-000000000000"
SECOND = "GPU-11111111-bbbb-0000-0000-000000000000"
SESSION = """
query ($id: ID!) {
  session(id: $id) {
    state attempt retry_count failure { code message } preemption { cause }
    kernels { resource_spec { slot devices { device_id } } }
  }
}
"""
DEVICES = "{ agents { edges { node { attributes { name value } devices { id kind health } } } } }"
STAYS = "trap '' TERM; while :; do sleep 0.05; done"
"""A job that only SIGKILL ends."""


async def seen(client: Client, session_id: str) -> dict[str, Any]:
    return dict((await client.execute(SESSION, {"id": session_id}))["session"])


async def until_on(client: Client, session_id: str, device: str, *, attempt: int = 1) -> dict[str, Any]:
    """Wait until an attempt runs on a GPU."""

    async def look() -> dict[str, Any] | None:
        found = await seen(client, session_id)
        held = [
            one["device_id"]
            for kernel in found["kernels"]
            for spec in kernel["resource_spec"]
            for one in spec["devices"]
        ]
        runs = (found["state"], found["attempt"]) == ("running", attempt)
        return found if runs and device in held else None

    return await until(look)


async def until_health(client: Client, **wanted: str) -> dict[str, str]:
    """Wait until the GPUs have this health; returns the agent's attributes."""

    async def look() -> dict[str, str] | None:
        (edge,) = (await client.execute(DEVICES))["agents"]["edges"]
        health = {one["id"]: one["health"] for one in edge["node"]["devices"] if one["kind"] == "cuda"}
        told = {one["name"]: one["value"] for one in edge["node"]["attributes"]}
        return told if health == {FIRST: wanted["first"], SECOND: wanted["second"]} else None

    return await until(look)


async def test_a_faulty_gpu_loses_its_sessions_and_returns_after_passing_its_check(tmp_path: Path) -> None:
    library, events, passes = compiled(tmp_path), tmp_path / "events", tmp_path / "passes"
    environment = {
        "LD_LIBRARY_PATH": str(library.parent),
        "FAKE_NVML_EVENTS": str(events),
        "ALIQUOT_DEVICE_CHECK": f"sh -c 'test -e {passes}'",
        "ALIQUOT_DEVICE_CHECK_INTERVAL_S": "0.5",
    }
    async with OwnServer(environment=environment) as server, server.client() as client:
        await until_health(client, first="healthy", second="healthy")
        moves = await submit(client, STAYS, {"cuda.device": "1"}, preemptible=True)
        held = await until_on(client, moves, SECOND)
        assert held["retry_count"] == 0
        fails = await submit(client, STAYS, {"cuda.device": "1"})
        await until_on(client, fails, FIRST)

        events.write_text("1 31\n0 43\n0 79\n")
        told = await until_health(client, first="unhealthy", second="healthy")
        assert told["cuda0.trouble"] == "in quarantine: XID 79 (the GPU has fallen off the bus)"
        ended = await until_state(client, fails, "failed")
        assert ended["failure"]["code"] == "hardware"
        assert f"hardware fault of {FIRST}" in ended["failure"]["message"]
        assert (await seen(client, moves))["attempt"] == 1

        passes.touch()
        await until_health(client, first="healthy", second="healthy")
        passes.unlink()
        with events.open("a") as file:
            file.write("1 48\n")
        found = await until_on(client, moves, FIRST, attempt=2)
        assert (found["retry_count"], found["preemption"]["cause"]) == (0, "device")
        await until_health(client, first="healthy", second="unhealthy")
        waits = await submit(client, "true", {"cuda.device": "1"})
        assert (await until_state(client, waits, "queued"))["state"] == "queued"
        passes.touch()
        assert (await until_state(client, waits, "completed"))["exit_code"] == 0
