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
from simulation_network_faults import NetworkFaults

SUSPECT_S = 6.0
LOST_S = 30.0
ANSWER_S = 10.0


class Connection:
    """A connection between a machine and a server; messages arrive in order while it is open."""

    def __init__(self, machine: Machine, inbox: "asyncio.Queue[AgentMessage]", network_faults: NetworkFaults) -> None:
        self.machine = machine
        self.is_open = True
        self._inbox = inbox
        self._network_faults = network_faults
        self._in_flight: deque[AgentMessage] = deque()

    def send(self, message: AgentMessage) -> None:
        """Send; a report may arrive twice, long after others, or never."""
        if isinstance(message, KernelChanged):
            fate = self._network_faults.draw_outcome()
            if fate == "lost":
                return
            if fate == "repeated":
                self._network_faults.call_delayed(lambda: self._inbox.put_nowait(message), seconds=60.0)
        self._in_flight.append(message)
        self._network_faults.call_delayed(self._arrive)

    def _arrive(self) -> None:
        message = self._in_flight.popleft()
        if self.is_open:
            self._inbox.put_nowait(message)


class Network:
    """The port `Executor` for one term of one server."""

    def __init__(
        self, machines: dict[str, Machine], *, process: Process, network_faults: NetworkFaults, epoch: int
    ) -> None:
        self._machines = machines
        self._process = process
        self._network_faults = network_faults
        self._epoch = epoch
        self._connections: dict[str, Connection] = {}
        self._inbox: asyncio.Queue[AgentMessage] = asyncio.Queue()
        self._is_open = True

    async def start(self) -> None:
        for machine in self._machines.values():
            self.dial(machine)

    async def close(self) -> None:
        self._is_open = False
        for connection in self._connections.values():
            connection.is_open = False

    def dial(self, machine: Machine) -> None:
        """The agent connects, if it can and knows no later leader."""
        self._network_faults.call_delayed(lambda: self._connect(machine))

    def cut(self, machine: Machine) -> None:
        """The connection is lost; the agent reconnects after the outage."""
        connection = self._connections.pop(machine.id, None)
        if connection is None:
            return
        connection.is_open = False
        self._network_faults.call_after(SUSPECT_S, lambda: self._report_silent(connection, lost=False))
        self._network_faults.call_after(LOST_S, lambda: self._report_silent(connection, lost=True))
        self._network_faults.call_after(self._network_faults.cut_off(machine.id), lambda: self._connect(machine))

    async def messages(self) -> AsyncIterator[AgentMessage]:
        while True:
            yield await self._inbox.get()

    async def launch(self, agent_id: AgentId, orders: Sequence[LaunchOrder]) -> None:
        crashes = self._network_faults.happens(0.02)
        await self._call(agent_id, lambda machine: machine.launch(orders, crashes=crashes))
        if crashes:
            self.cut(self._machines[agent_id])

    async def stop(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, grace_ms: int) -> None:
        await self._call(agent_id, lambda machine: machine.stop(kernel_id, epoch=epoch, grace_ms=grace_ms))

    async def send_signal(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, signal: int) -> None:
        await self._call(agent_id, lambda machine: machine.signal(kernel_id, epoch=epoch))

    async def set_limit(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, time_limit_ms: int) -> None:
        await self._call(agent_id, lambda machine: machine.signal(kernel_id, epoch=epoch))

    async def forget(self, agent_id: AgentId, kernel_ids: Sequence[KernelId]) -> None:
        await self._call(agent_id, lambda machine: machine.forget(kernel_ids))

    async def inventory(self, agent_id: AgentId) -> Inventory:
        found: Inventory = await self._call(agent_id, lambda machine: machine.inventory())
        return found

    async def follow_log(self, agent_id: AgentId, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        yield LogChunk(offset=offset, data=b"", at_end=True)

    async def _call(self, agent_id: AgentId, work: Callable[[Machine], Any]) -> Any:
        connection = self._connections.get(agent_id)
        if connection is None or not self._process.is_alive:
            raise Unavailable(f"{agent_id} cannot be asked")
        fate = self._network_faults.draw_outcome()
        if fate == "lost":
            self.cut(connection.machine)
            await asyncio.sleep(self._network_faults.delay_s(ANSWER_S))
            raise Unavailable(f"{agent_id} did not hear")
        await asyncio.sleep(self._network_faults.delay_s())
        if not (connection.is_open and self._process.is_alive):
            raise Unavailable(f"the line to {agent_id} was cut")
        if connection.machine.is_paused:
            connection.machine.queue_request(lambda: self._network_faults.try_call(lambda: work(connection.machine)))
            await asyncio.sleep(self._network_faults.delay_s(ANSWER_S))
            raise Unavailable(f"{agent_id} did not answer in time")
        answer = work(connection.machine)
        if fate == "repeated":
            self._network_faults.call_delayed(
                lambda: self._network_faults.try_call(lambda: work(connection.machine)), seconds=30.0
            )
        await asyncio.sleep(self._network_faults.delay_s())
        if fate == "unanswered" or not connection.is_open:
            raise Unavailable(f"{agent_id} did not answer")
        return answer

    def _connect(self, machine: Machine) -> None:
        if not self._is_open or not self._process.is_alive or machine.id in self._connections:
            return
        if self._network_faults.is_cut_off(machine.id) or machine.is_paused:
            self._network_faults.call_after(1.0, lambda: self._connect(machine))
            return
        if not self._network_faults.try_call(lambda: machine.check_epoch(self._epoch)):
            return
        machine.disconnect()
        connection = self._connections[machine.id] = Connection(machine, self._inbox, self._network_faults)
        machine.send = connection.send
        machine.disconnect = lambda: self.cut(machine)
        connection.send(AgentJoined(inventory=machine.inventory()))

    def _report_silent(self, connection: Connection, *, lost: bool) -> None:
        if self._is_open and connection.machine.id not in self._connections:
            self._inbox.put_nowait(AgentSilent(agent_id=connection.machine.id, lost=lost))
