"""Throughput of no-op sessions, from first submission to last end."""

import asyncio
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from cluster import AGENTS, GPUS, cluster, creation, submit, until_count
from http_load import Connection
from lone_orchestrator import orchestrator, use_server_settings
from registry import Key, scenario

# The fake executor is shared with the tests; only pytest adds their support folder.
sys.path.append(str(Path(__file__).parents[1] / "support"))

from aliquot_schema.cluster.launching import LaunchOrder
from aliquot_schema.ids import AgentId, DeviceId, SlotName, UserId
from aliquot_schema.requests import Caller, NewSession, Role
from allocation_devices import gpu
from service_fakes import FakeAgent, FakeExecutor

SESSIONS: Final = 1000
CLIENTS: Final = 8
MOCK_SESSIONS: Final = 5000
POLL_S: Final = 0.005


@scenario(Key(name="jobs_per_s", what="`true` sessions started and finished, 64 mock GPUs", reach=">= 100"))
async def throughput() -> dict[str, float]:
    """Includes submission: the queue fills while it is worked off."""
    async with cluster() as server:
        bodies = [creation(argv=["true"], run="throughput") for _ in range(SESSIONS)]
        began = time.perf_counter()
        await submit(server, bodies, clients=CLIENTS)
        async with Connection(server.port, server.token) as connection:
            await until_count(connection, SESSIONS, run="throughput", states=["completed"])
        return {"jobs_per_s": SESSIONS / (time.perf_counter() - began)}


@scenario(
    Key(
        name="jobs_mock_per_s",
        what="the same without processes and HTTP: an executor that says that each kernel has started and ended",
        reach=">= 900",
    )
)
async def throughput_without_processes() -> dict[str, float]:
    """In a separate process: submission, decision, every commit and the ledger, on SQLite."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as worker:
        took_s = await asyncio.get_running_loop().run_in_executor(worker, measure)
    return {"jobs_mock_per_s": MOCK_SESSIONS / took_s}


class EndingAgents(FakeExecutor):
    """Starts every order, and ends it."""

    async def launch(self, agent_id: AgentId, orders: Sequence[LaunchOrder]) -> None:
        await super().launch(agent_id, orders)
        for order in orders:
            self.end_kernel(order.kernel_id)


def measure() -> float:
    """Seconds from the first submission to the last end."""
    use_server_settings()
    return asyncio.run(_measure())


async def _measure() -> float:
    agents = [
        FakeAgent(
            id=AgentId(f"bench-{number}"),
            devices=tuple(gpu(index, id=DeviceId(f"bench-{number}-cuda{index}")) for index in range(GPUS)),
        )
        for number in range(AGENTS)
    ]
    wanted = NewSession(argv=("true",), shell=None, slots=[(SlotName("cuda.device"), "1")])
    numbers = iter(range(MOCK_SESSIONS))
    async with orchestrator(EndingAgents(agents)) as service:

        async def work(client: int) -> None:
            caller = Caller(user=UserId(f"user{client}"), request_id="req_bench", role=Role.ADMIN)
            for _ in numbers:
                await service.sessions.create_session(caller, wanted)

        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for client in range(CLIENTS):
                group.create_task(work(client))
        while service.state.pending or any(service.state.open_leases.values()):  # noqa: ASYNC110 # no event signals it
            await asyncio.sleep(POLL_S)
        return time.perf_counter() - began
