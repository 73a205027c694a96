"""A fake executor like the local one: agents with real device plugins, kernels that end when a test says so.

It fails on anything an agent would not do: an order for held devices, a stop of an unknown kernel.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from aliquot_schema.cluster.agents import Agent, Capabilities
from aliquot_schema.cluster.launching import (
    NO_HOST_USES,
    OUTPUT_END,
    AgentJoined,
    AgentMessage,
    AgentSilent,
    DevicesChanged,
    Inventory,
    KernelChanged,
    KernelPhase,
    KernelReport,
    LaunchOrder,
    LogChunk,
    NewReadings,
)
from aliquot_schema.errors import NotFound, Unavailable
from aliquot_schema.ids import AgentId, KernelId, NodeId
from aliquot_schema.resources.devices import Device, DeviceReading
from aliquot_schema.resources.leases import EndEvidence, HostUse
from aliquot_schema.resources.slots import SlotType


@dataclass
class FakeAgent:
    """An agent that keeps its kernels over server restarts."""

    id: AgentId
    devices: tuple[Device, ...]
    boot_id: str = "boot-1"
    node: str = ""
    """Shared with agents of the same name; empty = its own node."""
    capabilities: Capabilities = field(default_factory=Capabilities)
    orders: dict[KernelId, LaunchOrder] = field(default_factory=dict)
    running: set[KernelId] = field(default_factory=set)
    ended: dict[KernelId, KernelReport] = field(default_factory=dict)
    stopped: list[KernelId] = field(default_factory=list)
    signals: list[tuple[KernelId, int]] = field(default_factory=list)
    limits: list[tuple[KernelId, int]] = field(default_factory=list)
    takes_limits: bool = True
    starts: list[KernelId] = field(default_factory=list)
    forgotten: list[KernelId] = field(default_factory=list)
    refuse: KernelReport | None = None
    accounts: set[str] = field(default_factory=set)
    """The Unix accounts of its host."""
    loses_orders: bool = False
    """Records orders and crashes: they are neither started nor stopped."""

    def describe(self) -> Agent:
        types = {slot: SlotType.BYTES if slot == "mem" else SlotType.COUNT for d in self.devices for slot in d.costs}
        return Agent(
            id=self.id,
            version=0,
            node_id=NodeId(self.node or f"node-{self.id}"),
            hostname=str(self.id),
            devices=self.devices,
            slot_types=types,
            boot_id=self.boot_id,
            capabilities=self.capabilities,
            registered_us=0,
            state_changed_us=0,
        )

    def inventory(self) -> Inventory:
        alive = [self.alive(kernel_id) for kernel_id in sorted(self.running)]
        alive += [_unclaimed(k) for k in sorted(self.orders.keys() - self.running - self.ended.keys())]
        return Inventory(agent=self.describe(), kernels=(*alive, *self.ended.values()))

    def alive(self, kernel_id: KernelId) -> KernelReport:
        """The report of a running kernel."""
        takes_limit = self.takes_limits
        return KernelReport(kernel_id=kernel_id, phase=KernelPhase.STARTED, at_us=1, takes_limit=takes_limit)


class FakeExecutor:
    """Implements `Executor`."""

    def __init__(self, agents: Sequence[FakeAgent]) -> None:
        self.agents = {agent.id: agent for agent in agents}
        self.silent: set[AgentId] = set()
        self.start_by_itself = True
        self.logs: dict[KernelId, list[LogChunk]] = {}
        """The kernels' output; one that is missing prints a line."""
        self._messages: asyncio.Queue[AgentMessage] = asyncio.Queue()

    async def start(self) -> None:
        for agent in self.agents.values():
            self._messages.put_nowait(AgentJoined(inventory=agent.inventory()))

    async def close(self) -> None:
        return None

    async def messages(self) -> AsyncIterator[AgentMessage]:
        while True:
            yield await self._messages.get()

    async def launch(self, agent_id: AgentId, orders: Sequence[LaunchOrder]) -> None:
        agent = self._reachable(agent_id)
        for order in orders:
            if order.kernel_id in agent.starts or order.kernel_id in agent.ended:
                continue
            agent.orders[order.kernel_id] = order
            if agent.loses_orders:
                continue
            if agent.refuse is not None:
                self._report(agent, _as_refusal(agent.refuse, order.kernel_id))
            elif self.start_by_itself:
                self.start_kernel(order.kernel_id)

    async def stop(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, grace_ms: int) -> None:
        self._reachable(agent_id).stopped.append(kernel_id)

    async def send_signal(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, signal: int) -> None:
        if kernel_id not in self._reachable(agent_id).running:
            raise NotFound("it does not run", kind="kernel", id=kernel_id)
        self.agents[agent_id].signals.append((kernel_id, signal))

    async def set_limit(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, time_limit_ms: int) -> None:
        if kernel_id not in self._reachable(agent_id).running:
            raise NotFound("it does not run", kind="kernel", id=kernel_id)
        self.agents[agent_id].limits.append((kernel_id, time_limit_ms))

    async def forget(self, agent_id: AgentId, kernel_ids: Sequence[KernelId]) -> None:
        agent = self._reachable(agent_id)
        agent.forgotten.extend(kernel_ids)
        for kernel_id in kernel_ids:
            assert kernel_id not in agent.running, f"{kernel_id} is to be forgotten while it runs"

    async def inventory(self, agent_id: AgentId) -> Inventory:
        return self._reachable(agent_id).inventory()

    async def has_account(self, agent_id: AgentId, account: str) -> bool | None:
        return account in self._reachable(agent_id).accounts

    async def follow_log(self, agent_id: AgentId, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        if kernel_id not in self._reachable(agent_id).orders:
            raise NotFound(f"{kernel_id} is not known here", kind="kernel", id=kernel_id)
        text = f"output of {kernel_id}\n".encode()
        if offset == OUTPUT_END:
            *_, last = self.logs.get(kernel_id) or [LogChunk(offset=0, data=text, at_end=True)]
            yield LogChunk(offset=last.offset + len(last.data), data=b"", at_end=False)
            return
        for chunk in self.logs.get(kernel_id, []):
            yield chunk
        if kernel_id in self.logs:
            return
        yield LogChunk(offset=offset, data=text[offset:], at_end=False)
        yield LogChunk(offset=len(text), data=b"", at_end=True)

    def start_kernel(self, kernel_id: KernelId) -> None:
        """The kernel starts."""
        agent = self._holder(kernel_id)
        assert kernel_id not in agent.starts, f"{kernel_id} was started twice"
        agent.starts.append(kernel_id)
        agent.running.add(kernel_id)
        self._report(agent, agent.alive(kernel_id))

    def end_kernel(self, kernel_id: KernelId, *, code: int | None = 0, signal: int | None = None) -> None:
        """The kernel's processes are gone."""
        agent = self._holder(kernel_id)
        agent.running.discard(kernel_id)
        report = KernelReport(
            kernel_id=kernel_id,
            phase=KernelPhase.EXITED,
            at_us=2,
            exit_code=code,
            signal=signal,
            ran_ms=5,
            evidence=EndEvidence.EXIT_FILE,
        )
        agent.ended[kernel_id] = report
        self._report(agent, report)

    def disconnect_agent(self, agent_id: AgentId, *, gone: bool = False) -> None:
        """The agent is unreachable."""
        self.silent.add(agent_id)
        self._messages.put_nowait(AgentSilent(agent_id=agent_id, gone=gone))

    def reconnect_agent(self, agent_id: AgentId) -> None:
        """The agent is reachable again."""
        self.silent.discard(agent_id)
        self._messages.put_nowait(AgentJoined(inventory=self.agents[agent_id].inventory()))

    def add_agent(self, agent: FakeAgent) -> None:
        """A new agent joins, or a closed one returns with other inventory."""
        self.agents[agent.id] = agent
        self.reconnect_agent(agent.id)

    def reboot_agent(self, agent_id: AgentId) -> None:
        """The node is rebooted: its kernels are gone, and the agent has forgotten them."""
        agent = self.agents[agent_id]
        agent.boot_id += "+"
        agent.running.clear()
        agent.orders.clear()
        agent.ended.clear()
        self.reconnect_agent(agent_id)

    def change_devices(self, agent_id: AgentId, devices: tuple[Device, ...]) -> None:
        """The agent's plugins find other devices from now on."""
        self.agents[agent_id].devices = devices
        self._messages.put_nowait(DevicesChanged(inventory=self.agents[agent_id].inventory()))

    def report_readings(
        self,
        agent_id: AgentId,
        readings: tuple[DeviceReading, ...],
        host_uses: Mapping[KernelId, HostUse] = NO_HOST_USES,
    ) -> None:
        """The agent reports readings of its devices and kernels."""
        self._messages.put_nowait(NewReadings(agent_id=agent_id, at_us=1, readings=readings, host_uses=host_uses))

    def take_messages(self) -> list[AgentMessage]:
        """The messages since, for a test that delivers them itself."""
        return [self._messages.get_nowait() for _ in range(self._messages.qsize())]

    def repeat_report(self, kernel_id: KernelId) -> None:
        """The agent repeats its last report."""
        agent = self._holder(kernel_id)
        self._report(agent, agent.ended[kernel_id])

    def _holder(self, kernel_id: KernelId) -> FakeAgent:
        return next(agent for agent in self.agents.values() if kernel_id in agent.orders)

    def _report(self, agent: FakeAgent, report: KernelReport) -> None:
        if agent.id not in self.silent:
            self._messages.put_nowait(KernelChanged(agent_id=agent.id, report=report))

    def _reachable(self, agent_id: AgentId) -> FakeAgent:
        if agent_id in self.silent or agent_id not in self.agents:
            raise Unavailable(f"{agent_id} cannot be asked")
        return self.agents[agent_id]


def _unclaimed(kernel_id: KernelId) -> KernelReport:
    return KernelReport(kernel_id=kernel_id, phase=KernelPhase.UNCERTAIN, at_us=1, code="not_claimed")


def _as_refusal(report: KernelReport, kernel_id: KernelId) -> KernelReport:
    return KernelReport(
        kernel_id=kernel_id,
        phase=KernelPhase.REFUSED,
        at_us=1,
        evidence=EndEvidence.REFUSED,
        code=report.code,
        message=report.message,
    )
