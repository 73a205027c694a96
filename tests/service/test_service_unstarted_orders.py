"""Orders that an agent recorded and never carried out: it crashed in between."""

from pathlib import Path

import pytest

from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.states import KernelState, SessionState
from service_bench import CALLER, agent, service_on
from service_fakes import FakeExecutor

pytestmark = pytest.mark.anyio

A = AgentId("a")


async def test_an_order_that_was_never_claimed_is_sent_again(tmp_path: Path) -> None:
    executor = FakeExecutor([agent("a", devices=1)])
    fake = executor.agents[A]
    fake.loses_orders = True
    async with service_on(tmp_path, executor) as bench:
        await bench.until(lambda: A in bench.state.reachable)
        session = await bench.submit(devices=1)
        await bench.until(lambda: bool(fake.orders))
    fake.loses_orders = False
    async with service_on(tmp_path, executor) as bench:
        await bench.until_state(session, SessionState.RUNNING)
    assert fake.starts == [KernelId(f"{session}.1.0")]


async def test_an_unclaimed_start_order_of_a_canceled_session_is_stopped(tmp_path: Path) -> None:
    executor = FakeExecutor([agent("a", devices=1)])
    fake = executor.agents[A]
    fake.loses_orders = True
    async with service_on(tmp_path, executor) as bench:
        await bench.until(lambda: A in bench.state.reachable)
        session = await bench.submit(devices=1)
        kernel = KernelId(f"{session}.1.0")
        await bench.until(lambda: bool(fake.orders))
        executor.disconnect_agent(A)
        await bench.until(lambda: A not in bench.state.reachable)
        await bench.service.sessions.cancel_session(CALLER, session, None)
        executor.reconnect_agent(A)
        await bench.until(lambda: fake.stopped == [kernel])
        assert bench.state.kernels[kernel].state is KernelState.STOPPING
        assert not fake.starts
