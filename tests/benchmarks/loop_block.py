"""How long the server's event loop is blocked: 10,000 sessions on the openb cluster, and more throughout."""

import asyncio
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from lone_orchestrator import orchestrator, use_server_settings
from registry import Key, scenario

# The cluster, its jobs and the fake executor are shared with the tests; only pytest adds their support folder.
sys.path.append(str(Path(__file__).parents[1] / "support"))

from aliquot.core.model.snapshot import Request
from aliquot_schema.cluster.launching import KernelPhase, KernelReport, LaunchOrder
from aliquot_schema.ids import AgentId, KernelId, UserId
from aliquot_schema.requests import Caller, NewSession, Role
from aliquot_schema.resources.slots import format_amount
from lone_service import Orchestrator
from placement_queue import Full
from placement_traces import ABSENT, is_present, openb
from service_fakes import FakeAgent, FakeExecutor

PENDING: Final = 10_000
CLIENTS: Final = 16
SAMPLE_S: Final = 0.001
MORE: Final = 500
"""Submissions after these, while the queue is long."""
WAIT_S_MAX: Final = 300.0


@scenario(
    Key(
        name="loop_block_max_s",
        what="longest standstill of the event loop while 10,000 are submitted and placed",
        reach="<= 0.050",
    ),
)
async def loop_block() -> dict[str, float]:
    """In a separate process."""
    if not is_present():
        print(f"  skipped: {ABSENT}", file=sys.stderr, flush=True)
        return {}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as worker:
        found = await asyncio.get_running_loop().run_in_executor(worker, measure)
    print(
        f"  {found.placed:,} placed, {found.waiting:,} wait | standstills above 20 ms: {found.long_ones} of "
        f"{found.samples:,} samples | longest by the loop's own CPU time {found.cpu_max_s:.3f} s",
        file=sys.stderr,
        flush=True,
    )
    return {"loop_block_max_s": found.lag_max_s}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was measured."""

    lag_max_s: float
    cpu_max_s: float
    long_ones: int
    samples: int
    placed: int
    waiting: int


class Agents(FakeExecutor):
    """Finds a kernel's agent without delay, and starts every order."""

    async def launch(self, agent_id: AgentId, orders: Sequence[LaunchOrder]) -> None:
        agent = self.agents[agent_id]
        for order in orders:
            agent.orders[order.kernel_id] = order
            agent.running.add(order.kernel_id)
            self._report(agent, _started(order.kernel_id))


class Lag:
    """Samples how much later than requested the loop resumes a task."""

    def __init__(self) -> None:
        self.lags_s: list[float] = []
        self.cpu_max_s = 0.0

    async def run(self) -> None:
        """Without end."""
        while True:
            began, cpu = time.perf_counter(), time.thread_time()
            await asyncio.sleep(SAMPLE_S)
            self.lags_s.append(time.perf_counter() - began - SAMPLE_S)
            self.cpu_max_s = max(self.cpu_max_s, time.thread_time() - cpu)


def measure() -> Found:
    """Uses the interpreter settings of a server."""
    use_server_settings()
    return asyncio.run(_measure())


async def _measure() -> Found:
    full = Full(openb())
    requests = itertools.cycle([row.request for row in full.rows(PENDING, prefix="")])
    agents = [
        FakeAgent(id=row.id, devices=tuple(row.layout.devices.values()), node=str(row.node_id)) for row in full.agents
    ]
    async with orchestrator(Agents(agents)) as service:
        lag = Lag()
        sampling = asyncio.create_task(lag.run())
        await _submit(service, requests, count=PENDING)
        async with asyncio.timeout(WAIT_S_MAX):
            await _until_judged(service)
        await _submit(service, requests, count=MORE)
        sampling.cancel()
        return Found(
            lag_max_s=max(lag.lags_s),
            cpu_max_s=lag.cpu_max_s,
            long_ones=sum(one > 0.020 for one in lag.lags_s),
            samples=len(lag.lags_s),
            placed=len(service.state.sessions) - len(service.state.pending),
            waiting=len(service.state.pending),
        )


async def _until_judged(service: Orchestrator) -> None:
    """Until each session runs or has a verdict."""
    while not service.state.pending.keys() <= service.state.verdicts.keys():  # noqa: ASYNC110 # no event signals it
        await asyncio.sleep(SAMPLE_S)


async def _submit(service: Orchestrator, requests: Iterator[Request], *, count: int) -> None:
    numbers = iter(range(count))

    async def work(number: int) -> None:
        caller = Caller(user=UserId(f"user{number}"), request_id="req_bench", role=Role.ADMIN)
        for _, request in zip(numbers, requests, strict=False):
            slots = [(slot, format_amount(slot, amount)) for slot, amount in request]
            await service.sessions.create_session(caller, NewSession(argv=("true",), shell=None, slots=slots))

    async with asyncio.TaskGroup() as group:
        for number in range(CLIENTS):
            group.create_task(work(number))


def _started(kernel_id: KernelId) -> KernelReport:
    return KernelReport(kernel_id=kernel_id, phase=KernelPhase.STARTED, at_us=1)
