"""Idle devices: how long each held GPU has measurably not been used, by the readings of its agent.

Kept in memory by the leader, from the first reading after a grant. A device with several holders cannot be attributed
to one of them: it is idle while none uses it, and its time starts anew when a holder comes.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct, field

from aliquot.core.idleness import IdleRule, IdleState, UseReading
from aliquot.core.use_trend import UseTrend
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.ids import DeviceId, LeaseId, NodeId, SessionId
from aliquot_schema.resources.devices import Device, DeviceReading
from aliquot_schema.resources.leases import Lease
from aliquot_schema.resources.slots import is_accelerator

RULE: Final = IdleRule()


class HeldDevice(Struct, frozen=True, kw_only=True):
    """One held device and what its readings showed."""

    device: Device
    leases: frozenset[LeaseId]
    sessions: frozenset[SessionId]
    """Without external allocations."""
    use: IdleState
    trend: UseTrend = field(default=UseTrend())
    idle_us_before: int = 0
    """Idle time in earlier spells that reached the limit of the rule."""

    @property
    def idle_us_total(self) -> int:
        """Idle time since the grant, in spells that reached the limit of the rule."""
        return self.idle_us_before + (self.use.idle_us if self.use.is_idle(RULE) else 0)


class IdleDevices:
    """The held devices of all agents."""

    def __init__(self) -> None:
        self._held: dict[NodeId, dict[DeviceId, HeldDevice]] = {}

    def take(self, agent: Agent, readings: Iterable[DeviceReading], leases: Iterable[Lease], *, now_us: int) -> None:
        """Add an agent's readings.

        Args:
            leases: the open leases of the agent's node.
            now_us: monotonic time, in microseconds.
        """
        holders: dict[DeviceId, list[Lease]] = {}
        for lease in leases:
            for device_id in {name for amounts in lease.spec.values() for name in amounts}:
                holders.setdefault(device_id, []).append(lease)
        devices = {device.id: device for device in agent.devices if any(map(is_accelerator, device.costs))}
        own = self._held.setdefault(agent.node_id, {})
        for reading in readings:
            device = devices.get(reading.device_id)
            if device is None:
                continue
            held = _held(device, holders.get(device.id, ()))
            before = own.pop(device.id, None)
            if held is not None:
                is_same = before is not None and held.leases <= before.leases
                known = before if before is not None and is_same else held
                use = known.use.after(_use_reading(device, reading, now_us), RULE)
                ended_us = known.use.idle_us if use.idle_us < known.use.idle_us and known.use.is_idle(RULE) else 0
                own[device.id] = HeldDevice(
                    device=device,
                    leases=held.leases,
                    sessions=held.sessions,
                    use=use,
                    trend=known.trend.after(now_us, reading.utilization_pct),
                    idle_us_before=known.idle_us_before + ended_us,
                )

    def total_us(self, node_id: NodeId, device_id: DeviceId, lease_id: LeaseId) -> int:
        """Idle time of a device since a lease was granted, see `HeldDevice.idle_us_total`; 0 = none was measured."""
        held = self._held.get(node_id, {}).get(device_id)
        return 0 if held is None or lease_id not in held.leases else held.idle_us_total

    def idle(self, limit_us: int) -> Iterator[HeldDevice]:
        """Devices that were idle for at least this long at their last reading."""
        for own in self._held.values():
            yield from (held for held in own.values() if held.use.idle_us >= limit_us)

    def all(self) -> Iterator[HeldDevice]:
        """All that are measured."""
        for own in self._held.values():
            yield from own.values()

    def of(self, session_id: SessionId) -> Iterator[HeldDevice]:
        """The measured GPUs of a session."""
        for own in self._held.values():
            yield from (held for held in own.values() if session_id in held.sessions)

    def clear(self) -> None:
        """Forget everything: another server leads."""
        self._held.clear()


def _held(device: Device, own: Sequence[Lease]) -> HeldDevice | None:
    if not own:
        return None
    return HeldDevice(
        device=device,
        leases=frozenset(lease.id for lease in own),
        sessions=frozenset(lease.session_id for lease in own if lease.session_id is not None),
        use=IdleState(),
    )


def _use_reading(device: Device, reading: DeviceReading, now_us: int) -> UseReading:
    return UseReading(
        at_us=now_us,
        utilization_pct=reading.utilization_pct,
        memory_bytes=reading.memory_used_bytes,
        memory_bytes_total=device.memory_bytes,
    )
