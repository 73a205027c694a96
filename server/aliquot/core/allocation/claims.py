"""Claims: the devices that an operator names for each agent of a node, one by one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from aliquot.core.allocation.partition import PartitionRefused, Parts, piece_of
from aliquot_schema.devices import Device
from aliquot_schema.ids import AgentId, DeviceId
from aliquot_schema.natural_order import natural_key
from aliquot_schema.sizes import format_size

CPU: Final = "cpu"
MEM: Final = "mem"
NAMED_MAX: Final = 32
"""Valid names that a message lists, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one agent is to have. What is not named it does not get."""

    agent_id: AgentId
    devices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By kind (`cpu` is one): each a name (`cuda0`), an id, or the number alone. A device brings its slices."""
    memory_bytes: int = 0


def claimed(devices: Iterable[Device], *, claims: Sequence[Claim]) -> Parts:
    """Give every agent what it claims.

    Raises:
        PartitionRefused: there is no such kind or device, a device or a part of it is claimed twice, or more memory is
            claimed than there is.
    """
    ordered = sorted(devices, key=lambda device: (natural_key(device.name), device.id))
    kinds = {device.kind: [other for other in ordered if other.kind == device.kind] for device in ordered}
    owners: dict[DeviceId, AgentId] = {}
    parts: dict[AgentId, list[Device]] = {claim.agent_id: [] for claim in claims}
    for claim in claims:
        for kind, texts in claim.devices.items():
            if kind == MEM or (kind not in kinds and kind != CPU):
                raise _no_such_kind(claim.agent_id, kind=kind, kinds=kinds)
            for device in _named(claim.agent_id, texts, of_kind=kinds.get(kind, []), kind=kind):
                _own(device, claim.agent_id, owners=owners)
                parts[claim.agent_id].append(device)
    _share_memory(claims, pools=kinds.get(MEM, []), parts=parts)
    return {agent_id: tuple(part) for agent_id, part in parts.items()}


def _named(agent_id: AgentId, texts: Sequence[str], *, of_kind: Sequence[Device], kind: str) -> Iterator[Device]:
    for text in texts:
        named = [device for device in of_kind if text in (device.name, device.id, device.name.removeprefix(kind))]
        if not named and not any(device.parent == text for device in of_kind):
            valid = [device.name for device in of_kind]
            more = f" and {len(valid) - NAMED_MAX} more" if len(valid) > NAMED_MAX else ""
            listed = ", ".join(valid[:NAMED_MAX]) + more if valid else "none at all"
            raise PartitionRefused(f"agent {agent_id}: there is no {kind} device {text!r}; there are {listed}")
        wholes = {str(device.id) for device in named} or {text}
        yield from (*named, *(device for device in of_kind if device.parent in wholes))


def _own(device: Device, agent_id: AgentId, *, owners: dict[DeviceId, AgentId]) -> None:
    other = owners.get(device.id)
    if other == agent_id:
        raise PartitionRefused(f"agent {agent_id}: device {device.name} is named twice")
    if other is not None:
        raise PartitionRefused(
            f"device {device.name} is given to two agents, {other} and {agent_id}; it can belong to one of them"
        )
    owners[device.id] = agent_id


def _share_memory(claims: Sequence[Claim], *, pools: Sequence[Device], parts: dict[AgentId, list[Device]]) -> None:
    """From one pool after the other."""
    wanted, there = sum(claim.memory_bytes for claim in claims), sum(pool.budget for pool in pools)
    if wanted > there:
        raise PartitionRefused(
            f"the agents are given {format_size(wanted)} of memory together, and this node has {format_size(there)}"
        )
    left = {pool.id: pool.budget for pool in pools}
    for claim in claims:
        rest = claim.memory_bytes
        for pool in pools:
            taken = min(rest, left[pool.id])
            if taken:
                parts[claim.agent_id].append(piece_of(pool, owner=claim.agent_id, budget=taken))
                left[pool.id] -= taken
                rest -= taken


def _no_such_kind(agent_id: AgentId, *, kind: str, kinds: Mapping[str, object]) -> PartitionRefused:
    if kind == MEM:
        return PartitionRefused(f'agent {agent_id}: memory is given as an amount, mem = "32G", beside [devices]')
    valid = [known for known in kinds if known not in (CPU, MEM)]
    listed = ", ".join(valid) or "none at all"
    return PartitionRefused(f"agent {agent_id}: there are no devices named {kind!r} here; there are {listed}")
