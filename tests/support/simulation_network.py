"""The network between one server and the machines: delays, duplicates, reordering, and cuts."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from aliquot_schema.cluster.launching import (
    AgentJoined,
    AgentMessage,
    AgentSilent,
    Inventory,
    KernelChanged,
    LaunchOrder,
    LogChunk,
)
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import AgentId, KernelId
from simulation_loop import Process
from simulation_machine import Machine
from simulation_weather import Weather

SUSPECT_S = 6.0
LOST_S = 30.0
ANSWER_S = 10.0


class Line:
    """A connection between a machine and a server; messages arrive in order while it is open."""

    def __init__(self, machine: Machine, inbox: "asyncio.Queue[AgentMessage]", weather: Weather) -> None:
        self.machine = machine
        self.is_open = True
        self._inbox = inbox
        self._weather = weather
        self._under_way: deque[AgentMessage] = deque()

    def say(self, message: AgentMessage) -> None:
        """Send; a report may arrive twice, long after others, or never."""
        if isinstance(message, KernelChanged):
            fate = self._weather.fate()
            if fate == "lost":
                return
            if fate == "repeated":
                self._weather.later(lambda: self._inbox.put_nowait(message), seconds=60.0)
        self._under_way.append(message)
        self._weather.later(self._arrive)

    def _arrive(self) -> None:
        message = self._under_way.popleft()
        if self.is_open:
            self._inbox.put_nowait(message)


class Network:
    """The port `Executor` for one term of one server."""

    def __init__(self, machines: dict[str, Machine], *, process: Process, weather: Weather, epoch: int) -> None:
        self._machines = machines
        self._process = process
        self._weather = weather
        self._epoch = epoch
        self._lines: dict[str, Line] = {}
        self._inbox: asyncio.Queue[AgentMessage] = asyncio.Queue()
        self._is_open = True

    async def start(self) -> None:
        for machine in self._machines.values():
            self.dial(machine)

    async def close(self) -> None:
        self._is_open = False
        for line in self._lines.values():
            line.is_open = False

    def dial(self, machine: Machine) -> None:
        """The agent connects, if it can and knows no later leader."""
        self._weather.later(lambda: self._connect(machine))

    def cut(self, machine: Machine) -> None:
        """The connection is lost; the agent reconnects after the outage."""
        line = self._lines.pop(machine.id, None)
        if line is None:
            return
        line.is_open = False
        self._weather.after(SUSPECT_S, lambda: self._miss(line, lost=False))
        self._weather.after(LOST_S, lambda: self._miss(line, lost=True))
        self._weather.after(self._weather.outage_s(machine.id), lambda: self._connect(machine))

    async def messages(self) -> AsyncIterator[AgentMessage]:
        while True:
            yield await self._inbox.get()

    async def launch(self, agent_id: AgentId, orders: Sequence[LaunchOrder]) -> None:
        crashes = self._weather.happens(0.02)
        await self._ask(agent_id, lambda machine: machine.launch(orders, crashes=crashes))
        if crashes:
            self.cut(self._machines[agent_id])

    async def stop(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, grace_ms: int) -> None:
        await self._ask(agent_id, lambda machine: machine.stop(kernel_id, epoch=epoch, grace_ms=grace_ms))

    async def send_signal(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, signal: int) -> None:
        await self._ask(agent_id, lambda machine: machine.signal(kernel_id, epoch=epoch))

    async def set_limit(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, time_limit_ms: int) -> None:
        await self._ask(agent_id, lambda machine: machine.signal(kernel_id, epoch=epoch))

    async def forget(self, agent_id: AgentId, kernel_ids: Sequence[KernelId]) -> None:
        await self._ask(agent_id, lambda machine: machine.forget(kernel_ids))

    async def inventory(self, agent_id: AgentId) -> Inventory:
        found: Inventory = await self._ask(agent_id, lambda machine: machine.inventory())
        return found

    async def follow_log(self, agent_id: AgentId, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        yield LogChunk(offset=offset, data=b"", at_end=True)

    async def _ask(self, agent_id: AgentId, work: Callable[[Machine], Any]) -> Any:
        line = self._lines.get(agent_id)
        if line is None or not self._process.is_alive:
            raise Unavailable(f"{agent_id} cannot be asked")
        fate = self._weather.fate()
        if fate == "lost":
            self.cut(line.machine)
            await asyncio.sleep(self._weather.delay_s(ANSWER_S))
            raise Unavailable(f"{agent_id} did not hear")
        await asyncio.sleep(self._weather.delay_s())
        if not (line.is_open and self._process.is_alive):
            raise Unavailable(f"the line to {agent_id} was cut")
        if line.machine.is_frozen:
            line.machine.hear_later(lambda: self._weather.forgive(lambda: work(line.machine)))
            await asyncio.sleep(self._weather.delay_s(ANSWER_S))
            raise Unavailable(f"{agent_id} did not answer in time")
        answer = work(line.machine)
        if fate == "repeated":
            self._weather.later(lambda: self._weather.forgive(lambda: work(line.machine)), seconds=30.0)
        await asyncio.sleep(self._weather.delay_s())
        if fate == "unanswered" or not line.is_open:
            raise Unavailable(f"{agent_id} did not answer")
        return answer

    def _connect(self, machine: Machine) -> None:
        if not self._is_open or not self._process.is_alive or machine.id in self._lines:
            return
        if self._weather.is_out(machine.id) or machine.is_frozen:
            self._weather.after(1.0, lambda: self._connect(machine))
            return
        if not self._weather.forgive(lambda: machine.see_epoch(self._epoch)):
            return
        machine.hang_up()
        line = self._lines[machine.id] = Line(machine, self._inbox, self._weather)
        machine.tell = line.say
        machine.hang_up = lambda: self.cut(machine)
        line.say(AgentJoined(inventory=machine.inventory()))

    def _miss(self, line: Line, *, lost: bool) -> None:
        if self._is_open and line.machine.id not in self._lines:
            self._inbox.put_nowait(AgentSilent(agent_id=line.machine.id, lost=lost))
