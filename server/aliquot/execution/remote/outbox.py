"""What an agent has to tell over one connection, in order, and no more at once than the server takes."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from aliquot_schema.agent_protocol import WINDOW, DevicesTold, Joined, KernelTold, ReadingsTold, Report
from aliquot_schema.launching import (
    AgentJoined,
    AgentMessage,
    DevicesChanged,
    Inventory,
    KernelChanged,
    KernelReport,
    ReadingsTaken,
)

WAITING_MAX: Final = 50_000
"""Kernel reports that wait. Beyond, dialling in anew is cheaper: the inventory tells each kernel once."""


class OutboxFull(Exception):
    """The server takes reports more slowly than they come."""


@dataclass(slots=True)
class Outbox:
    """The inventory goes first; of devices and readings only the newest wait; reports about kernels all do."""

    _inventory: Inventory | None = None
    _kernels: deque[KernelReport] = field(default_factory=deque)
    _devices: Inventory | None = None
    _readings: ReadingsTaken | None = None
    _sent: int = 0
    _acknowledged: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, message: AgentMessage) -> None:
        """Have it told."""
        match message:
            case AgentJoined(inventory=inventory):
                self._inventory = inventory
            case KernelChanged(report=report):
                self._kernels.append(report)
            case DevicesChanged(inventory=inventory):
                self._devices = inventory
            case ReadingsTaken():
                self._readings = message
        self._news.set()

    def acknowledge(self, number: int) -> None:
        """The server took everything up to this number."""
        self._acknowledged = max(self._acknowledged, number)
        self._news.set()

    async def next(self) -> Report:
        """The next report to send, once the server has room for it.

        Raises:
            OutboxFull: it had none for too long.
        """
        while True:
            if len(self._kernels) > WAITING_MAX:
                raise OutboxFull
            has_room = self._sent < self._acknowledged + WINDOW
            report = self._take(self._sent + 1) if has_room else None
            if report is not None:
                self._sent += 1
                return report
            self._news.clear()
            await self._news.wait()

    def _take(self, number: int) -> Report | None:
        if self._inventory is not None:
            inventory, self._inventory = self._inventory, None
            return Joined(number=number, inventory=inventory)
        if self._sent == 0:
            return None
        if self._kernels:
            return KernelTold(number=number, report=self._kernels.popleft())
        if self._devices is not None:
            devices, self._devices = self._devices, None
            return DevicesTold(number=number, inventory=devices)
        if self._readings is not None:
            readings, self._readings = self._readings, None
            return ReadingsTold(
                number=number,
                at_us=readings.at_us,
                readings=readings.readings,
                disk_shortage=readings.disk_shortage,
            )
        return None
