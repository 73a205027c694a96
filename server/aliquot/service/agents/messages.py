"""Agent messages: one loop processes the reports of all agents in order and commits the consequences."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from msgspec.structs import replace

from aliquot.core.idleness import SECOND_US
from aliquot.core.transitions import is_overdue, unstopped
from aliquot.service.lifecycle.agent_registration import Repairs, claimed_twice, leave, reconcile, register
from aliquot.service.lifecycle.kernel_reports import apply_report
from aliquot.service.lifecycle.preflights import releases
from aliquot.service.metrics.log_context import logging_with
from aliquot.service.metrics.metrics import DeviceTime
from aliquot.service.ports import Clock, Executor
from aliquot.service.scheduling.dispatch import Dispatch
from aliquot.service.state.agents import accelerator_ids
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.cluster.launching import (
    AgentJoined,
    AgentMessage,
    AgentSilent,
    DevicesChanged,
    Inventory,
    KernelChanged,
    KernelPhase,
    KernelReport,
    NewReadings,
)
from aliquot_schema.ids import AgentId, DeviceId, KernelId
from aliquot_schema.resources.devices import DeviceReading
from aliquot_schema.resources.leases import Kernel
from aliquot_schema.states import AgentState, KernelState, SessionState

ACTOR: Final = "system:agents"
WAITING_MAX: Final = 10_000
BATCH_MAX: Final = 50
"""Messages processed without yielding to the event loop."""

log: Final = logging.getLogger("aliquot.agents")


class AgentMessages:
    """Processes messages of agents. Messages of a kind that arrive together share a commit: kernel reports, agents that
    join, and agents that have become silent."""

    def __init__(
        self,
        *,
        state: State,
        journal: Journal,
        executor: Executor,
        dispatch: Dispatch,
        clock: Clock,
        on_reachable: Callable[[], None],
        on_readings: Callable[[NewReadings], None] = lambda _: None,
        device_time: DeviceTime | None = None,
    ) -> None:
        self._state = state
        self._journal = journal
        self._executor = executor
        self._dispatch = dispatch
        self._clock = clock
        self._on_reachable = on_reachable
        self._on_readings = on_readings
        self._device_time = device_time or DeviceTime()
        self._waiting: asyncio.Queue[AgentMessage] = asyncio.Queue(WAITING_MAX)

    async def listen(self) -> None:
        """Receive messages from the executor until canceled."""
        async for message in self._executor.messages():
            await self._waiting.put(message)

    async def run(self) -> None:
        """Process messages until canceled."""
        while True:
            batch = [await self._waiting.get()]
            while not self._waiting.empty() and len(batch) < BATCH_MAX:
                batch.append(self._waiting.get_nowait())
            await self.run_once(batch)

    async def run_once(self, batch: list[AgentMessage]) -> None:
        """Process some messages in order; consecutive ones of a kind share a commit where they can."""
        for kind, messages in groupby(batch, key=type):
            if kind is KernelChanged:
                await self._take_reports([message for message in messages if isinstance(message, KernelChanged)])
            elif kind is AgentJoined:
                for inventories in self._unrelated(m.inventory for m in messages if isinstance(m, AgentJoined)):
                    await self._join(inventories)
            elif kind is AgentSilent:
                await self._silence([message for message in messages if isinstance(message, AgentSilent)])
            else:
                for message in messages:
                    with logging_with(agent_id=_agent_of(message)):
                        await self._take(message)

    async def _take_reports(self, reports: list[KernelChanged]) -> None:
        def change(draft: UnitOfWork) -> list[Kernel]:
            now_us = self._clock.now_us()
            stops: list[Kernel] = []
            for message in reports:
                report = self._state.host_uses.completed(message.report)
                stops += apply_report(draft, report, agent_id=message.agent_id, now_us=now_us)
            return stops

        self._dispatch.stop(await self._journal.persist(change, actor=ACTOR))
        self._release(message.report for message in reports)
        self._forget(reports)

    async def _take(self, message: AgentMessage) -> None:
        match message:
            case DevicesChanged(inventory=inventory):
                await self._journal.persist(lambda draft: self._register(draft, inventory.agent), actor=ACTOR)
            case NewReadings(agent_id=agent_id, readings=readings, host_uses=host_uses):
                known = self._state.layouts[agent_id].devices if agent_id in self._state.layouts else {}
                readings = tuple(reading for reading in readings if reading.device_id in known)
                self._state.readings.take(agent_id, readings)
                self._state.host_uses.take(agent_id, host_uses)
                self._note_use(agent_id, readings)
                self._device_time.measure(agent_id, readings, state=self._state, now_s=self._clock.monotonic())
                self._state.readings.note_copies(agent_id, message.copy_fault)
                self._on_readings(message)
                if self._state.disk_space.note(agent_id, message.disk_shortage):
                    self._on_reachable()

    def _note_use(self, agent_id: AgentId, readings: tuple[DeviceReading, ...]) -> None:
        agent = self._state.agents.get(agent_id)
        if agent is not None:
            now_us = int(self._clock.monotonic() * SECOND_US)
            self._state.readings.idle_devices.take(agent, readings, self._state.leases_on(agent.node_id), now_us=now_us)

    def _unrelated(self, inventories: Iterable[Inventory]) -> Iterator[list[Inventory]]:
        """Consecutive inventories that may share a commit: those of agents on different nodes, without a common
        accelerator. What one of several agents of a node may have depends on what the others have been given."""
        group: list[Inventory] = []
        seen: set[str] = set()
        for inventory in inventories:
            agent = inventory.agent
            known = self._state.agents.get(agent.id)
            nodes = {agent.node_id} if known is None else {agent.node_id, known.node_id}
            names = {agent.id, *nodes, *accelerator_ids(agent)}
            if not seen.isdisjoint(names):
                yield group
                group, seen = [], set()
            group.append(inventory)
            seen |= names
        yield group

    async def _join(self, inventories: Sequence[Inventory]) -> None:
        def change(draft: UnitOfWork) -> list[tuple[Inventory, Repairs]]:
            return [(inventory, self._reconcile(draft, inventory)) for inventory in completed]

        completed = [
            replace(inventory, kernels=tuple(map(self._state.host_uses.completed, inventory.kernels)))
            for inventory in inventories
        ]
        for inventory, repairs in await self._journal.persist(change, actor=ACTOR):
            with logging_with(agent_id=inventory.agent.id):
                self._joined(inventory, repairs)

    def _joined(self, inventory: Inventory, repairs: Repairs) -> None:
        agent_id = inventory.agent.id
        self._state.reachable.add(agent_id)
        self._on_reachable()
        self._dispatch.launch(repairs.launch)
        self._dispatch.stop(repairs.stop)
        self._release(inventory.kernels)
        self._signal_again(agent_id)
        self._limit_again(agent_id)
        for kernel_id in repairs.orphans:
            log.warning("agent %s runs %s, which has no lease; it is stopped", agent_id, kernel_id)
        self._dispatch.stop_orphans(agent_id, repairs.orphans)
        self._forget([KernelChanged(agent_id=agent_id, report=report) for report in inventory.kernels])

    def _release(self, reports: Iterable[KernelReport]) -> None:
        """Let gangs start whose last rank has passed its preflight. An agent that missed it reports again."""
        self._dispatch.launch(releases(self._state, reports, epoch=self._journal.epoch))

    def _signal_again(self, agent_id: AgentId) -> None:
        """Send the checkpoint signal again to preempted kernels within their grace period: the server or the
        connection may have failed before the first signal arrived."""
        for kernel in unstopped(self._state.live_kernels.on(agent_id)):
            session = self._state.sessions.get(kernel.session_id)
            if session is None or session.state is not SessionState.PREEMPTING or session.attempt != kernel.attempt:
                continue
            signal = session.spec.checkpoint_signal
            if signal is not None and not is_overdue(session, now_us=self._clock.now_us()):
                self._dispatch.send_signal([kernel], signal)

    def _limit_again(self, agent_id: AgentId) -> None:
        """Send granted extensions of running sessions again: the agent may have missed the first message."""
        for kernel in unstopped(self._state.live_kernels.on(agent_id)):
            session = self._state.sessions.get(kernel.session_id)
            if session is None or session.extension is None or session.attempt != kernel.attempt:
                continue
            limit_ms = session.spec.time_limit_ms
            if session.extension.is_granted(kernel.attempt) and limit_ms is not None:
                self._dispatch.set_limit([kernel], time_limit_ms=limit_ms)

    def _forget(self, reports: list[KernelChanged]) -> None:
        """Agents may drop reports of ended kernels once they are durable here, or were never known here."""
        done: dict[AgentId, list[KernelId]] = defaultdict(list)
        for message in reports:
            kernel = self._state.kernels.get(message.report.kernel_id)
            has_ended = kernel is None or kernel.state is KernelState.EXITED
            if has_ended and message.report.phase in (KernelPhase.EXITED, KernelPhase.REFUSED):
                done[message.agent_id].append(message.report.kernel_id)
        for agent_id, kernel_ids in done.items():
            self._dispatch.forget(agent_id, kernel_ids)

    def _reconcile(self, draft: UnitOfWork, inventory: Inventory) -> Repairs:
        known = draft.agent(inventory.agent.id)
        self._register(draft, inventory.agent)
        return reconcile(
            draft,
            inventory,
            self._state.live_kernels.on(inventory.agent.id),
            rebooted=known is not None and _has_rebooted(known, inventory.agent),
            epoch=self._journal.epoch,
            now_us=self._clock.now_us(),
        )

    def _register(self, draft: UnitOfWork, reported: Agent) -> Agent:
        known = draft.agent(reported.id)
        node_id = reported.node_id if known is None else known.node_id
        held: frozenset[DeviceId] = frozenset(self._state.used.get(node_id, {}))
        beside = self._state.agents_on(reported.node_id)
        reported = self._without_claimed(reported)
        return register(draft, reported, beside=beside, held=held, now_us=self._clock.now_us())

    def _without_claimed(self, reported: Agent) -> Agent:
        """The agent without the accelerators of another node's agent. Remote agents are refused before; this is for
        local ones, and for two that join at the same moment."""
        claimed = claimed_twice(self._state, reported)
        self._state.faults.note_claims(reported.id, tuple(claimed.values()))
        if not claimed:
            return reported
        return replace(reported, devices=tuple(device for device in reported.devices if device.id not in claimed))

    async def _silence(self, messages: Sequence[AgentSilent]) -> None:
        def change(draft: UnitOfWork) -> None:
            for message in messages:
                to = AgentState.LOST if message.lost else AgentState.SUSPECT
                if message.gone:
                    to = AgentState.LOST if self._state.is_held(message.agent_id) else AgentState.LEFT
                leave(draft, message.agent_id, to=to, now_us=self._clock.now_us())

        for message in messages:
            self._state.reachable.discard(message.agent_id)
            self._state.disk_space.agents.pop(message.agent_id, None)
            self._state.readings.note_copies(message.agent_id, None)
        await self._journal.persist(change, actor=ACTOR)


def _agent_of(message: AgentMessage) -> AgentId:
    """The reporting agent."""
    return message.inventory.agent.id if isinstance(message, AgentJoined | DevicesChanged) else message.agent_id


def _has_rebooted(known: Agent, reported: Agent) -> bool:
    """Whether the node has another boot id. If the agent moved to another node, its boot id says nothing about the
    old one."""
    return known.node_id == reported.node_id and known.boot_id != reported.boot_id
