"""Readings: what agents measured last, device by device. Not durable: a server that leads has them from
agents, one that follows from the leader."""

from collections.abc import Callable, Collection, Iterable

from aliquot_schema.devices import DeviceReading
from aliquot_schema.ids import AgentId, DeviceId


class Readings(dict[tuple[AgentId, DeviceId], DeviceReading]):
    """Changed by `take`, `forget` and `drop` alone."""

    def __init__(self) -> None:
        super().__init__()
        self.listeners: list[Callable[[AgentId | None], None]] = []
        """Called with the agent that measured; with None when all of it is gone."""

    def take(self, agent_id: AgentId, readings: Iterable[DeviceReading]) -> None:
        """An agent has measured."""
        self.update(((agent_id, reading.device_id), reading) for reading in readings)
        self._tell(agent_id)

    def forget(self, agent_ids: Collection[AgentId]) -> None:
        """What these agents measured is known no more."""
        for key in [key for key in self if key[0] in agent_ids]:
            del self[key]
        for agent_id in agent_ids:
            self._tell(agent_id)

    def drop(self) -> None:
        """Nothing is known any more."""
        self.clear()
        self._tell(None)

    def _tell(self, agent_id: AgentId | None) -> None:
        for listener in self.listeners:
            listener(agent_id)
