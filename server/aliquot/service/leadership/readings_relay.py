"""Readings relay: the leader publishes device readings through the shared database, and followers receive them.

The newest snapshot of the present term replaces the one before. The leader publishes when readings change and confirms
an unchanged snapshot every `KEEP_S`; a follower drops readings not confirmed for `STALE_S`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Final, Protocol

from msgspec import Struct, field

from aliquot.service.ports import Clock, StoreUnavailable
from aliquot.service.state.agents import Blocked, ForeignUsers
from aliquot.service.state.state import State
from aliquot.service.use_cases import UseCases
from aliquot_schema.async_tasks import raise_if_canceled
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.ids import AgentId, DeviceId, KernelId, NodeId
from aliquot_schema.resources.devices import DeviceReading
from aliquot_schema.resources.leases import HostUse
from aliquot_schema.states import AgentState

Column = tuple[float | None, ...]
"""One quantity per device of an agent, in the agent's order; None = not supported or not measured yet."""
_MEASURED: Final = attrgetter("utilization_pct", "memory_used_bytes", "temperature_c", "power_w")
_NOTHING: Final = DeviceReading(device_id=DeviceId(""))


class AgentReadings(Struct, frozen=True, kw_only=True):
    """Readings of one agent's devices, as columns."""

    agent_id: AgentId
    version: int
    """Version of the agent record; a receiver with another version may have another list of devices."""
    utilization_pct: Column
    memory_used_bytes: tuple[int | None, ...]
    temperature_c: Column
    power_w: Column


class ReadingsSnapshot(Struct, frozen=True, kw_only=True):
    """Readings of all agents at one moment. Processes on devices are left out: only the leader's reaper needs them."""

    lines: tuple[AgentReadings, ...]
    """Agents with at least one reading."""
    blocked: Blocked
    """Devices in use by foreign processes."""
    foreign_users: Mapping[NodeId, ForeignUsers] = field(default_factory=dict)
    """Unix accounts of these processes."""
    host_uses: Mapping[KernelId, HostUse] = field(default_factory=dict)
    """CPU time and host memory of running kernels."""


def sheet_of(
    agents: Iterable[Agent],
    readings: Mapping[tuple[AgentId, DeviceId], DeviceReading],
    *,
    blocked: Blocked,
    foreign_users: Mapping[NodeId, ForeignUsers] | None = None,
    host_uses: Mapping[KernelId, HostUse] | None = None,
) -> ReadingsSnapshot:
    """Snapshot of the agents that have not left."""
    return ReadingsSnapshot(
        lines=tuple(_lines(agents, readings)),
        blocked=blocked,
        foreign_users=dict(foreign_users or {}),
        host_uses=dict(host_uses or {}),
    )


def readings_in(line: AgentReadings, agent: Agent) -> Iterator[DeviceReading]:
    """Readings per device; `agent` must have the version of `line`."""
    columns = (line.utilization_pct, line.memory_used_bytes, line.temperature_c, line.power_w)
    for device, utilization_pct, memory_used_bytes, temperature_c, power_w in zip(agent.devices, *columns, strict=True):
        yield DeviceReading(
            device_id=device.id,
            utilization_pct=utilization_pct,
            memory_used_bytes=memory_used_bytes,
            temperature_c=temperature_c,
            power_w=power_w,
        )


def _lines(
    agents: Iterable[Agent], readings: Mapping[tuple[AgentId, DeviceId], DeviceReading]
) -> Iterator[AgentReadings]:
    for agent in agents:
        if agent.state is AgentState.LEFT:
            continue
        found = [readings.get((agent.id, device.id), _NOTHING) for device in agent.devices]
        if any(reading is not _NOTHING for reading in found):
            utilization_pct, memory_used_bytes, temperature_c, power_w = zip(*map(_MEASURED, found), strict=True)
            yield AgentReadings(
                agent_id=agent.id,
                version=agent.version,
                utilization_pct=utilization_pct,
                memory_used_bytes=memory_used_bytes,
                temperature_c=temperature_c,
                power_w=power_w,
            )


class PublishedReadings(Struct, frozen=True, kw_only=True):
    """The newest snapshot of the present term."""

    epoch: int
    number: int
    age_s: float
    """Seconds since the leader confirmed it, by the clock of the database."""
    sheet: ReadingsSnapshot | None
    """None: same snapshot as the `known` one."""


class ReadingsRelay(Protocol):
    """Storage of one snapshot, not durable: it may be lost at any time."""

    async def put(self, sheet: ReadingsSnapshot, *, epoch: int, number: int) -> bool:
        """Publish a snapshot.

        Args:
            number: unique within the epoch.
        Returns:
            Whether it was published; False when the epoch is over.
        Raises:
            StoreUnavailable: the database cannot be written.
        """

    async def keep(self, *, epoch: int, number: int) -> bool:
        """Confirm a snapshot; returns whether it is still stored. Raises StoreUnavailable."""

    async def newest(self, *, known: tuple[int, int] | None) -> PublishedReadings | None:
        """The snapshot published last; None when there is none in this term.

        Args:
            known: epoch and number of the snapshot that need not be read again.
        Raises:
            StoreUnavailable: the database cannot be read.
        """


STALE_S: Final = 20.0
"""Age in seconds after which unconfirmed readings are dropped."""
TURN: Final = 32
"""Agents applied before yielding to the event loop."""


class ReadingsReceiver:
    """Applies published readings and blocked devices to a state while its server does not lead."""

    def __init__(self, *, state: State, relay: ReadingsRelay, clock: Clock, leads: Callable[[], bool]) -> None:
        self._state = state
        self._relay = relay
        self._clock = clock
        self._leads = leads
        self._known: tuple[int, int] | None = None
        self._received_s = 0.0
        self._lines: dict[AgentId, AgentReadings] = {}
        """Lines of the newest snapshot."""
        self._applied: dict[AgentId, AgentReadings] = {}
        """Lines already applied to the state."""
        state.readings.listeners.append(self._reset)

    async def run_once(self) -> None:
        """Read the newest snapshot and apply it. While the database is unavailable, readings go stale."""
        try:
            newest = await self._relay.newest(known=self._known)
        except StoreUnavailable:
            if self._clock.monotonic() - self._received_s > STALE_S:
                self._forget()
            return
        self._received_s = self._clock.monotonic()
        if self._leads():
            return
        if newest is None or newest.age_s > STALE_S:
            self._forget()
            return
        self._note(newest)
        await self._apply()

    def _note(self, newest: PublishedReadings) -> None:
        if newest.sheet is not None:
            self._known = newest.epoch, newest.number
            self._lines = {line.agent_id: line for line in newest.sheet.lines}
            self._state.foreign_usage.set(newest.sheet.blocked, users=newest.sheet.foreign_users)
            self._state.host_uses.replace(newest.sheet.host_uses)

    async def _apply(self) -> None:
        """Apply changed lines. One for another version of its agent is applied once both versions agree."""
        if gone := self._applied.keys() - self._lines.keys():
            self._applied = {agent_id: line for agent_id, line in self._applied.items() if agent_id not in gone}
            self._state.readings.forget(gone)
        moved = [line for agent_id, line in self._lines.items() if self._applied.get(agent_id) != line]
        for count, line in enumerate(moved, start=1):
            agent = self._state.agents.get(line.agent_id)
            if agent is not None and agent.version == line.version:
                self._applied[agent.id] = line
                self._state.readings.take(agent.id, readings_in(line, agent))
            if count % TURN == 0:
                await asyncio.sleep(0)
                if self._leads():
                    return

    def _forget(self) -> None:
        if self._known is not None and not self._leads():
            self._state.readings.drop()
            self._state.foreign_usage.set({})
            self._state.host_uses.replace({})

    def _reset(self, agent_id: AgentId | None) -> None:
        """Start over when a term begins or ends, which clears all readings of the state (`agent_id` is None then)."""
        if agent_id is None:
            self._known = None
            self._lines, self._applied = {}, {}


KEEP_S: Final = 6.0
"""Interval at which an unchanged snapshot is confirmed, in seconds."""


class ReadingsPublisher:
    """Publishes readings of one server, in all of its terms."""

    def __init__(self, *, state: State, relay: ReadingsRelay, clock: Clock) -> None:
        self._state = state
        self._relay = relay
        self._clock = clock
        self._number = 0
        self._published: ReadingsSnapshot | None = None
        self._epoch = 0
        """Epoch of `_published`."""
        self._published_s = 0.0

    async def run_once(self, epoch: int) -> None:
        """Publish the present readings, if changed or due for confirmation. Raises StoreUnavailable."""
        agents, readings = tuple(self._state.agents.values()), dict(self._state.readings)
        # In a thread: thousands of devices would block the event loop.
        foreign = self._state.foreign_usage
        sheet = await asyncio.to_thread(
            sheet_of,
            agents,
            readings,
            blocked=foreign.blocked,
            foreign_users=foreign.users,
            host_uses=self._state.host_uses.running(),
        )
        now_s = self._clock.monotonic()
        if (epoch, sheet) != (self._epoch, self._published):
            self._number += 1
            done = await self._relay.put(sheet, epoch=epoch, number=self._number)
        elif now_s - self._published_s >= KEEP_S:
            done = await self._relay.keep(epoch=epoch, number=self._number)
        else:
            return
        self._published, self._epoch, self._published_s = sheet if done else None, epoch, now_s


TELL_S: Final = 2.0
"""Minimum interval between two snapshots, in seconds: agents do not measure more often."""
HEAR_S: Final = 1.0
DEVICES_PER_S: Final = 2000
"""Larger clusters publish less often, so that publishing costs half a percent of a core."""
TELL_S_MAX: Final = 8.0
"""Well below `STALE_S`."""

log: Final = logging.getLogger("aliquot.relaying")


class ReadingsExchange:
    """Loop of one server: publishes while it leads, receives while it follows."""

    def __init__(self, cases: UseCases, relay: ReadingsRelay) -> None:
        self._state, self._journal, self._clock = cases.state, cases.journal, cases.clock
        self._publisher = ReadingsPublisher(state=cases.state, relay=relay, clock=cases.clock)
        self._receiver = ReadingsReceiver(
            state=cases.state, relay=relay, clock=cases.clock, leads=lambda: cases.journal.leads
        )
        self._has_failed = False

    async def run(self) -> None:
        """Run until cancelled. A failure is logged once; it affects nothing but the readings on followers."""
        while True:
            try:
                await (
                    self._publisher.run_once(self._journal.epoch) if self._journal.leads else self._receiver.run_once()
                )
                self._has_failed = False
            except StoreUnavailable as error:
                log.debug("device readings cannot be exchanged with the other servers now: %s", error)
            except Exception:
                if not self._has_failed:
                    log.exception("device readings cannot be exchanged with the other servers")
                self._has_failed = True
            raise_if_canceled()
            await self._clock.sleep(self._pause_s())

    def _pause_s(self) -> float:
        if not self._journal.leads:
            return HEAR_S
        return min(max(TELL_S, len(self._state.readings) / DEVICES_PER_S), TELL_S_MAX)
