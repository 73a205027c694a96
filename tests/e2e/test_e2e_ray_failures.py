"""Sessions on Ray while parts of it and of the server are killed and frozen. Each test leaves all working."""

import signal
from collections.abc import AsyncIterator

import pytest

from agent_harness import shim_pids
from aliquot.cli.acceptance.checks import kill_mentioning
from aliquot.execution.ray.hosting import installed_code
from e2e_sessions import alloc_map, session, submit, until, until_state
from ray_processes import gcs_pid
from ray_stage import Stage, send, stage
from remote_machine import booted_as

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CANCEL = "mutation ($id: ID!) { cancel_session(input: { id: $id }) { __typename } }"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def everything(anyio_backend: str) -> AsyncIterator[Stage]:
    async with stage() as made:
        yield made


@pytest.fixture
async def on(everything: Stage) -> Stage:
    await everything.until_connected()
    everything.states.clear()
    return everything


async def until_other(look: object, old: int) -> None:
    async def other() -> bool:
        assert callable(look)
        return (await look()) != old

    await until(other)


async def held(on: Stage, number: int) -> list[str]:
    return [share for share in (await alloc_map(on.client, f"demo-{number}")).values() if share != "0.00"]


async def assert_ends(on: Stage, name: str, session_id: str, code: int = 7) -> None:
    """The exact exit code arrives, after a single start."""
    ended = await on.ended(session_id)
    assert (ended["exit_code"], on.runs(name)) == (code, 1)


async def apart(on: Stage) -> dict[str, object] | None:
    told = await on.cluster_ray()
    return None if told["connected"] else told


async def waits_for_the_cluster(on: Stage, session_id: str) -> bool:
    waits = (await session(on.client, session_id))["waits"]
    return waits is not None and waits["reason"] == "cluster_unavailable"


async def test_a_killed_actor_is_made_again_and_its_sessions_live_on(on: Stage) -> None:
    early, number = await on.job("actor-early", code=3)
    late, _ = await on.job("actor-late", code=4)
    actor = await on.actor(number)
    send(actor, signal.SIGKILL)
    on.end_job("actor-early")
    await until_other(lambda: on.actor(number), actor)
    await assert_ends(on, "actor-early", early, 3)
    assert (await session(on.client, late))["state"] == "running"
    on.end_job("actor-late")
    await assert_ends(on, "actor-late", late, 4)
    assert "lost" not in on.states.get(f"demo-{number}", [])


async def test_a_killed_raylet_is_started_again_under_the_same_agent(on: Stage) -> None:
    job, number = await on.job("raylet")
    raylet = await on.raylet(number)
    send(raylet, signal.SIGKILL)
    await on.until_agent(number, "suspect")
    assert await held(on, number) == ["1.00"]
    on.end_job("raylet")
    await until_other(lambda: on.raylet(number), raylet)
    await on.until_agent(number, "alive")
    await assert_ends(on, "raylet", job)


async def test_a_cleanly_stopped_ray_node_leaves_its_jobs_running_and_rejoins(on: Stage) -> None:
    job, number = await on.job("node")
    assert await on.node(number).stop() == 0
    await on.until_agent(number, "lost")
    assert (await session(on.client, job))["state"] in ("running", "queued")
    assert await held(on, number) == ["1.00"]
    await on.node(number).start()
    await on.until_agent(number, "alive")
    on.end_job("node")
    await assert_ends(on, "node", job)


async def test_a_killed_gateway_is_restarted_and_no_agent_is_lost(on: Stage) -> None:
    job, number = await on.job("gateway")
    gateway = await on.gateway()
    send(gateway, signal.SIGKILL)
    on.end_job("gateway")
    await until_other(on.gateway, gateway)
    await on.until_connected()
    await assert_ends(on, "gateway", job)
    assert "lost" not in on.states.get(f"demo-{number}", [])


async def test_a_frozen_gateway_is_replaced(on: Stage) -> None:
    job, number = await on.job("frozen-gateway")
    gateway = await on.gateway()
    send(gateway, signal.SIGSTOP)
    await on.until_agent(number, "suspect")
    on.end_job("frozen-gateway")
    await until_other(on.gateway, gateway)
    await on.until_connected()
    await assert_ends(on, "frozen-gateway", job)


@pytest.mark.parametrize("crash", [True, False])
async def test_a_server_that_is_started_again_adopts_the_actors(on: Stage, crash: bool) -> None:
    name = f"server-{crash}"
    job, number = await on.job(name)
    actor, code = await on.actor(number), installed_code()
    await (on.server.kill() if crash else on.server.stop())
    on.end_job(name)
    await on.server.start()
    await on.until_connected()
    await assert_ends(on, name, job)
    # An actor with outdated code is replaced, as after an edit during this run.
    assert await on.actor(number) == actor or installed_code() != code


async def test_a_frozen_actor_is_suspect_then_lost_keeps_its_devices_and_comes_back(on: Stage) -> None:
    job, number = await on.job("frozen")
    actor = await on.actor(number)
    send(actor, signal.SIGSTOP)
    try:
        await on.until_agent(number, "lost")
        assert "suspect" in on.states[f"demo-{number}"]
        assert await held(on, number) == ["1.00"]
        elsewhere = await submit(on.client, "true", {"cuda.device": "8"})
        placed = await until_state(on.client, elsewhere, "completed")
        assert [kernel["agent_id"] for kernel in placed["kernels"]] == [f"demo-{3 - number}"]
    finally:
        send(actor, signal.SIGCONT)
    await on.until_agent(number, "alive")
    on.end_job("frozen")
    await assert_ends(on, "frozen", job)


async def test_a_session_canceled_while_its_actor_is_gone_ends_when_it_is_back(on: Stage) -> None:
    job, number = await on.job("canceled")
    actor = await on.actor(number)
    send(actor, signal.SIGSTOP)
    try:
        await on.until_agent(number, "suspect")
        await on.client.execute(CANCEL, {"id": job})
        assert await held(on, number) == ["1.00"]
    finally:
        send(actor, signal.SIGKILL)
    await on.until_agent(number, "alive")

    async def free() -> bool:
        return not await held(on, number)

    await until(free)
    assert on.runs("canceled") == 1


async def test_sessions_survive_the_loss_of_the_ray_head_and_new_sessions_wait_for_a_new_head(on: Stage) -> None:
    early, _ = await on.job("early", code=3)
    late, _ = await on.job("late", code=4)
    port = on.ray.head.rpartition(":")[2]
    store = gcs_pid(port)
    assert store is not None
    send(on.ray.head_node.pid, signal.SIGSTOP)  # so that no other one is started
    send(store, signal.SIGKILL)
    on.end_job("early")
    told = await until(lambda: apart(on))
    assert told["reason"]
    await on.until_agent(1, "lost")
    await on.until_agent(2, "lost")
    waiting = await submit(on.client, "true", {"cuda.device": "1"})
    await until(lambda: waits_for_the_cluster(on, waiting))
    send(on.ray.head_node.pid, signal.SIGCONT)
    await on.until_connected()
    assert (await on.ended(early))["exit_code"] == 3
    on.end_job("late")
    assert (await on.ended(late))["exit_code"] == 4
    assert (on.runs("early"), on.runs("late")) == (1, 1)
    await until_state(on.client, waiting, "completed")


async def test_after_a_reboot_of_a_ray_node_its_sessions_run_once_more(on: Stage) -> None:
    job, number = await on.job("boot")
    assert await on.node(number).stop() == 0
    await on.until_agent(number, "suspect")
    for shim in shim_pids(on.agent_folder(number)):  # first, so that no shim records an exit
        send(shim, signal.SIGKILL)
    kill_mentioning(str(on.ray.folder / "marks" / "boot"))
    assert await held(on, number) == ["1.00"]
    await on.node(number).start(booted_as("another-boot", folder=on.ray.folder / "python"))
    on.end_job("boot")
    ended = await on.ended(job)
    assert (ended["state"], ended["exit_code"], ended["attempt"]) == ("failed", 7, 2)
    assert on.runs("boot") == 2, "once before the boot and once after it"
    await on.until_connected()
    assert await held(on, number) == []
