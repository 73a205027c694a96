"""Sampling: what a leader records in history, from the readings of agents and the events of sessions.

Samples are taken in the event loop and handed to the store, which never blocks.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from aliquot.service.history.history import History
from aliquot.service.history.measures import QUEUE_EVERY_S, AgentDevices, DeviceSample, QueueSample
from aliquot.service.history.ports import HistoryUnavailable
from aliquot.service.ports import Clock
from aliquot.service.retention import ClockJumps
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.views.agents import HOST_SLOTS
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.cluster.launching import NewReadings
from aliquot_schema.events import Entity, Event
from aliquot_schema.ids import AgentId, DeviceId, SessionId
from aliquot_schema.resources.devices import Device, DeviceHealth, DeviceReading
from aliquot_schema.resources.slots import MILLI
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState

RUNNING: Final = frozenset({SessionState.RUNNING, SessionState.PREEMPTING})
SCHEDULED: Final = "session.scheduled"
TEND_FIRST_S: Final = 30.0
TEND_EVERY_S: Final = 600.0
log: Final = logging.getLogger("aliquot.history")


class DeviceSampler:
    """Makes samples of readings and held amounts. An agent's accelerators are listed again only when they change."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._known: dict[AgentId, tuple[tuple[Device, ...], tuple[Device, ...], AgentDevices]] = {}

    def sample(self, message: NewReadings, *, at_us: int) -> DeviceSample | None:
        """The readings of an agent's accelerators; None when it has none.

        Args:
            at_us: time of the server's clock, because the clocks of agents differ.
        """
        agent = self._state.agents.get(message.agent_id)
        if agent is None:
            return None
        devices, roster = self._accelerators(agent)
        if not devices:
            return None
        used = self._state.used.get(agent.node_id, {})
        readings = {reading.device_id: reading for reading in message.readings}
        values = tuple(
            _numbers(readings.get(device.id), min(used.get(device.id, 0), device.budget) * MILLI / device.budget)
            for device in devices
        )
        return DeviceSample(roster=roster, at_us=at_us, values=values)

    def _accelerators(self, agent: Agent) -> tuple[tuple[Device, ...], AgentDevices]:
        known = self._known.get(agent.id)
        if known is None or known[0] is not agent.devices or known[2].node_id != agent.node_id:
            found = tuple(
                device
                for device in agent.devices
                if device.kind not in HOST_SLOTS and device.health is not DeviceHealth.GONE
            )
            known = self._known[agent.id] = (agent.devices, found, _agent_devices(agent, found))
        return known[1], known[2]


def _agent_devices(agent: Agent, devices: tuple[Device, ...]) -> AgentDevices:
    there: set[DeviceId] = {device.id for device in devices}
    return AgentDevices(
        agent_id=agent.id,
        node_id=agent.node_id,
        device_ids=tuple(device.id for device in devices),
        counted=tuple(
            device.health is DeviceHealth.HEALTHY and (device.parent is None or device.parent not in there)
            for device in devices
        ),
    )


def _numbers(reading: DeviceReading | None, held_milli: float) -> tuple[float | None, ...]:
    """In the order of `DEVICE_MEASURES`."""
    if reading is None:
        return (None, None, None, None, held_milli)
    return (reading.utilization_pct, reading.memory_used_bytes, reading.temperature_c, reading.power_w, held_milli)


class QueueSampling:
    """Counts what happens between two samples. External allocations never wait and are not counted."""

    def __init__(self, state: State, *, take: Callable[[QueueSample], None]) -> None:
        self._state = state
        self._take = take
        self._running: dict[SessionId, None] = dict.fromkeys(
            session.id for session in state.sessions.values() if _is_running(session)
        )
        self._submitted = self._started = self._ended = 0
        self._waited_s = 0.0

    def on_event(self, event: Event) -> None:
        """Count an event that was applied to the state."""
        session = event.record
        if not isinstance(session, Session) or session.is_external_allocation:
            return
        if session.version == 1 and session.array_id is None:
            self._submitted += 1 if session.tasks is None else len(session.tasks.waiting)
        if session.tasks is not None:
            return
        if event.kind == SCHEDULED and session.scheduled_us is not None:
            self._started += 1
            self._waited_s += max(0, session.scheduled_us - session.queued_us) / 1e6
        if session.is_ended:
            self._ended += 1
        if _is_running(session):
            self._running[session.id] = None
        else:
            self._running.pop(session.id, None)

    def sample(self, now_us: int) -> None:
        """Hand over a sample and reset the counters."""
        self._take(
            QueueSample(
                at_us=now_us,
                pending=self._state.tasks_pending,
                running=len(self._running),
                submitted=self._submitted,
                started=self._started,
                ended=self._ended,
                waited_s=self._waited_s,
            )
        )
        self._submitted = self._started = self._ended = 0
        self._waited_s = 0.0


def _is_running(session: Session) -> bool:
    return session.state in RUNNING and session.tasks is None and not session.is_external_allocation


class HistoryRecording:
    """Records history during one leader term. Without a store nothing is recorded."""

    def __init__(self, history: History, *, state: State, journal: Journal, clock: Clock, jumps: ClockJumps) -> None:
        """Subscribes to all events."""
        self._history = history
        self._clock = clock
        self._jumps = jumps
        self._devices = DeviceSampler(state)
        self._queue = QueueSampling(state, take=history.take)
        journal.subscribe(self._queue.on_event, to=(Entity.SESSION,))

    def note(self, message: NewReadings) -> None:
        """Record the readings of an agent."""
        if self._history.is_kept:
            sample = self._devices.sample(message, at_us=self._clock.now_us())
            if sample is not None:
                self._history.take(sample)

    async def run(self) -> None:
        """Sample the queue and roll up windows until canceled."""
        if not self._history.is_kept:
            return
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._sample(), name="history samples")
            loops.create_task(self._maintain(), name="history tending")

    async def _sample(self) -> None:
        while True:
            self._queue.sample(self._clock.now_us())
            await self._clock.sleep(QUEUE_EVERY_S)

    async def _maintain(self) -> None:
        wait_s = TEND_FIRST_S
        while True:
            await self._clock.sleep(wait_s)
            wait_s = TEND_EVERY_S
            if not self._jumps.is_steady():
                continue
            try:
                await self._history.maintain()
            except HistoryUnavailable:
                continue  # the store logs the reason once
            except Exception:
                log.exception("history could not be rolled up; next attempt in %g s", TEND_EVERY_S)
