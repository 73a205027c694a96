"""Partition of a node among its agents: devices are divided, never amounts of slots; slots follow from the devices."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Context
from itertools import accumulate, pairwise
from typing import Final, Protocol

from aliquot.errors import ConfigurationError
from aliquot_schema.devices import Device
from aliquot_schema.ids import AgentId, DeviceId, SlotName
from aliquot_schema.natural_order import natural_key
from aliquot_schema.slots import format_amount

Parts = Mapping[AgentId, tuple[Device, ...]]
"""The devices of each agent, whole ones as they are and parts of pools as devices of their own; nobody is missing."""
FACTOR_DIGITS: Final = 6
"""Significant ones of a scaling factor: 1 of 3 is 0.333333."""


class PartitionRefused(ConfigurationError):
    """A node cannot be divided so; the message names the device and the agents."""


class Partitioner(Protocol):
    """How the devices of one kind are divided."""

    def __call__(self, devices: Sequence[Device], *, agents: Sequence[AgentId]) -> Sequence[Sequence[Device]]:
        """Divide devices, which come in natural order of their names.

        Returns:
            One part for each agent, in their order; it may be empty. A device is in one part as it is, or it is cut:
            each piece has an id of its own, the device as its `parent`, and a part of its budget.
        """


def by_device(devices: Sequence[Device], *, agents: Sequence[AgentId]) -> list[tuple[Device, ...]]:
    """Whole devices in runs: 5 over 3 agents are [0, 1] [2, 3] [4], 2 over 3 are [0] [1] [].

    A device and its slices exclude each other, so they stay together.
    """
    families = _families(devices)
    bounds = pairwise(accumulate(_evenly(len(families), agents=len(agents)), initial=0))
    return [tuple(device for family in families[start:end] for device in family) for start, end in bounds]


def by_amount(devices: Sequence[Device], *, agents: Sequence[AgentId]) -> list[tuple[Device, ...]]:
    """An equal piece of every device for every agent; the first ones get a unit more where it does not divide."""
    pieces = [_evenly(device.budget, agents=len(agents)) for device in devices]
    return [
        tuple(
            piece_of(device, owner=agent_id, budget=amounts[index])
            for device, amounts in zip(devices, pieces, strict=True)
            if amounts[index]
        )
        for index, agent_id in enumerate(agents)
    ]


PARTITIONERS: Final[Mapping[str, Partitioner]] = {"mem": by_amount}
"""By kind of device; kinds that are not here are divided `by_device`."""


def piece_of(device: Device, *, owner: AgentId, budget: int) -> Device:
    """A part of a device. Its id names its owner, so that it stays his when other agents come or go.

    The whole is its parent: what was granted of the whole before the node was divided keeps every piece from being
    given twice.
    """
    memory = device.memory_bytes * budget // device.budget
    return replace(device, id=DeviceId(f"{device.id}/{owner}"), parent=device.id, budget=budget, memory_bytes=memory)


def auto_split(
    devices: Iterable[Device], *, agents: Sequence[AgentId], partitioners: Mapping[str, Partitioner] = PARTITIONERS
) -> Parts:
    """Divide all devices of a node, kind by kind.

    Raises:
        PartitionRefused: a partitioner gave what is not there, or gave it twice.
    """
    parts: dict[AgentId, list[Device]] = {agent_id: [] for agent_id in agents}
    for kind, of_kind in _by_kind(devices).items():
        given = partitioners.get(kind, by_device)(of_kind, agents=agents)
        _check(of_kind, given, kind=kind, agents=agents)
        for agent_id, part in zip(agents, given, strict=True):
            parts[agent_id] += part
    return {agent_id: tuple(part) for agent_id, part in parts.items()}


def left_over(devices: Iterable[Device], *, parts: Parts) -> list[str]:
    """What no part has, in words: names of devices, and what is left of those that were cut."""
    whole = {device.id for part in parts.values() for device in part}
    cut = Counter({device.id: 0 for device in devices})
    for part in parts.values():
        for device in part:
            if device.parent is not None:
                cut[device.parent] += device.budget
    found = []
    for device in sorted(devices, key=lambda device: natural_key(device.name)):
        rest = device.budget - cut[device.id]
        if device.id not in whole and rest > 0:
            found.append(f"{format_amount(device.kind, rest)} of {device.name}" if cut[device.id] else device.name)
    return found


def scaling_factors(
    part: Iterable[Device], *, node: Iterable[Device], slots: Iterable[SlotName]
) -> dict[SlotName, str]:
    """The part of the node's capacity that an agent has, per slot, as decimal text: 2 of 5 devices are 0.4.

    Args:
        node: all devices of the node.
        slots: what to tell of besides the slots of these devices; a slot without a device has the factor 0.
    """
    whole, own = _capacities(node), _capacities(part)
    return {slot: _factor(own[slot], whole[slot]) for slot in sorted({*whole, *slots})}


def _evenly(amount: int, *, agents: int) -> list[int]:
    each, more = divmod(amount, agents)
    return [each + (index < more) for index in range(agents)]


def _families(devices: Sequence[Device]) -> list[list[Device]]:
    """Devices with their slices; a slice whose whole is not offered stands alone."""
    families = {device.id: [device] for device in devices}
    for device in devices:
        if device.parent in families:
            families[device.parent] += families.pop(device.id)
    return list(families.values())


def _by_kind(devices: Iterable[Device]) -> dict[str, list[Device]]:
    kinds: dict[str, list[Device]] = {}
    for device in sorted(devices, key=lambda device: (natural_key(device.name), device.id)):
        kinds.setdefault(device.kind, []).append(device)
    return kinds


def _check(
    devices: Sequence[Device], given: Sequence[Sequence[Device]], *, kind: str, agents: Sequence[AgentId]
) -> None:
    """Partitioners may come from outside."""
    if len(given) != len(agents):
        raise PartitionRefused(f"the partitioner of {kind} made {len(given)} parts for {len(agents)} agents")
    known = {device.id: device for device in devices}
    left = {device.id: device.budget for device in devices}
    seen: set[DeviceId] = set()
    for device in (device for part in given for device in part):
        source = device.id if device.id in known else device.parent
        if source not in known or device.budget <= 0 or (device.id in known and device != known[device.id]):
            raise PartitionRefused(f"the partitioner of {kind} made up the device {device.id}")
        left[source] -= device.budget
        if left[source] < 0 or device.id in seen:
            raise PartitionRefused(f"the partitioner of {kind} gave {known[source].name} twice")
        seen.add(device.id)


def _capacities(devices: Iterable[Device]) -> Counter[SlotName]:
    sums: Counter[SlotName] = Counter()
    for device in devices:
        for slot in device.costs:
            sums[slot] += device.capacity(slot)
    return sums


def _factor(part: int, whole: int) -> str:
    if not part or not whole:
        return "0"
    return format(Context(prec=FACTOR_DIGITS).divide(part, whole).normalize(), "f")
