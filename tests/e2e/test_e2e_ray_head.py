"""Ray's control store is lost for good, and a new one takes its place at the same address."""

import signal
from collections.abc import AsyncIterator

import pytest

from e2e_sessions import session, submit, until, until_state
from ray_processes import gcs_pid
from ray_stage import Stage, send, stage

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
async def on(anyio_backend: str) -> AsyncIterator[Stage]:
    async with stage() as made:
        yield made


async def test_sessions_live_through_the_loss_of_the_head_and_new_ones_wait(on: Stage) -> None:
    early, number = await on.job("early", code=3)
    late, _ = await on.job("late", code=4)
    port = on.ray.head.rpartition(":")[2]
    store = gcs_pid(port)
    assert store is not None
    send(on.ray.head_node.pid, signal.SIGSTOP)  # so that nobody starts another one yet
    send(store, signal.SIGKILL)
    on.let_end("early")
    told = await until(lambda: _apart(on))
    assert told["reason"]
    await on.until_agent(1, "lost")
    await on.until_agent(2, "lost")
    waiting = await submit(on.client, "true", {"cuda.device": "1"})
    await until(lambda: _waits(on, waiting))
    send(on.ray.head_node.pid, signal.SIGCONT)
    await until(lambda: _workers(on, 2))
    await on.until_agent(number, "alive")
    assert (await on.ended(early))["exit_code"] == 3
    on.let_end("late")
    assert (await on.ended(late))["exit_code"] == 4
    assert (on.runs("early"), on.runs("late")) == (1, 1)
    await until_state(on.client, waiting, "completed")


async def _apart(on: Stage) -> dict[str, object] | None:
    told = await on.cluster_ray()
    return None if told["connected"] else told


async def _workers(on: Stage, count: int) -> bool:
    return bool((await on.cluster_ray())["workers"] == count)


async def _waits(on: Stage, session_id: str) -> bool:
    waits = (await session(on.client, session_id))["waits"]
    return waits is not None and waits["reason"] == "cluster_unavailable"
