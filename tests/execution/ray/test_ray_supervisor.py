"""The gateway's process: its status while Ray is away, and its recovery. No test here needs Ray to run."""

import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agent_harness import is_running, wait_until
from aliquot.execution.ray.supervisor import GatewaySupervisor
from aliquot.execution.remote.codec import Wire
from aliquot_schema.ids import AgentId

pytestmark = pytest.mark.anyio


class Nobody:
    """No agent ever connects."""

    async def meet(self, wire: Wire, *, agent_id: str, key: str | None) -> None:
        raise AssertionError(agent_id)

    def missed(self, agent_id: AgentId) -> None:
        raise AssertionError(agent_id)


def dead_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"127.0.0.1:{taken.getsockname()[1]}"


@asynccontextmanager
async def supervised(head: str) -> AsyncIterator[GatewaySupervisor]:
    supervisor = GatewaySupervisor(head, agents=Nobody(), token_file=None)
    supervisor.start()
    try:
        yield supervisor
    finally:
        await supervisor.close()


async def another_pid(supervisor: GatewaySupervisor, *, than: int | None) -> int:
    await wait_until(lambda: supervisor.pid not in (None, than))
    assert supervisor.pid is not None
    return supervisor.pid


async def test_an_unreachable_ray_head_is_reported_and_retried() -> None:
    head = dead_address()
    async with supervised(head) as supervisor:
        first = await another_pid(supervisor, than=None)
        await wait_until(lambda: head in (supervisor.status.reason or ""))
        status = supervisor.status
        assert (status.head_node, status.connected, status.version, status.nodes) == (head, False, None, 0)
        await another_pid(supervisor, than=first)


async def test_a_killed_gateway_is_started_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections, and is not Ray
        async with supervised(f"127.0.0.1:{silent.getsockname()[1]}") as supervisor:
            first = await another_pid(supervisor, than=None)
            os.kill(first, signal.SIGKILL)
            second = await another_pid(supervisor, than=first)
    assert not is_running(second)


async def test_a_silent_gateway_is_killed_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aliquot.execution.ray.gateway_client.SILENCE_S_MAX", 0.2)
    monkeypatch.setattr("aliquot.execution.ray.supervisor.END_S_MAX", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with supervised(f"127.0.0.1:{silent.getsockname()[1]}") as supervisor:
            first = await another_pid(supervisor, than=None)
            os.kill(first, signal.SIGSTOP)
            await another_pid(supervisor, than=first)
            assert not is_running(first)
