"""Node partition: divides the devices of a node among its agents, automatically or as an operator names them.

Devices are divided, never amounts of slots; slots follow from the devices. A `DeviceSelection` says which devices of a
node Aliquot may use at all.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Context
from itertools import accumulate, pairwise
from typing import Final, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from aliquot.errors import ConfigurationError
from aliquot_schema.ids import AgentId, DeviceId, SlotName, natural_key
from aliquot_schema.resources.devices import Device
from aliquot_schema.resources.slots import format_amount
from aliquot_schema.resources.units import format_size

Parts = Mapping[AgentId, tuple[Device, ...]]
"""Devices of every agent. Whole devices are unchanged; a part of a pool is a device of its own."""
FACTOR_DIGITS: Final = 6
"""Significant digits of a scaling factor: 1 of 3 is 0.333333."""
CPU: Final = "cpu"
MEM: Final = "mem"
NAMED_MAX: Final = 32
"""Valid names listed in a message."""


class PartitionRefused(ConfigurationError):
    """A node cannot be divided as requested; the message names the device and the agents."""


class Partitioner(Protocol):
    """Divides the devices of one kind."""

    def __call__(self, devices: Sequence[Device], *, agents: Sequence[AgentId]) -> Sequence[Sequence[Device]]:
        """Divide devices, given in natural order of their names.

        Returns:
            One part per agent, in their order; it may be empty. A device is in one part unchanged, or it is cut: each
            piece has its own id, the device as its `parent`, and a part of its budget.
        """


def by_device(devices: Sequence[Device], *, agents: Sequence[AgentId]) -> list[tuple[Device, ...]]:
    """Whole devices in runs: 5 over 3 agents are [0, 1] [2, 3] [4], 2 over 3 are [0] [1] [].

    A device and its slices stay together, as they exclude each other.
    """
    families = _families(devices)
    bounds = pairwise(accumulate(_evenly(len(families), agents=len(agents)), initial=0))
    return [tuple(device for family in families[start:end] for device in family) for start, end in bounds]


def by_amount(devices: Sequence[Device], *, agents: Sequence[AgentId]) -> list[tuple[Device, ...]]:
    """An equal piece of every device for every agent; the first agents get the remaining units."""
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
"""By kind of device; other kinds are divided `by_device`."""


def piece_of(device: Device, *, owner: AgentId, budget: int) -> Device:
    """A part of a device. Its id contains its agent, so that it does not change when other agents come or go.

    The whole device is its parent, so a grant of the whole, made before the node was divided, blocks every piece.
    """
    memory = device.memory_bytes * budget // device.budget
    return replace(device, id=DeviceId(f"{device.id}/{owner}"), parent=device.id, budget=budget, memory_bytes=memory)


def auto_split(
    devices: Iterable[Device], *, agents: Sequence[AgentId], partitioners: Mapping[str, Partitioner] = PARTITIONERS
) -> Parts:
    """Divide all devices of a node, kind by kind.

    Raises:
        PartitionRefused: a partitioner returned a device that does not exist, or returned one twice.
    """
    parts: dict[AgentId, list[Device]] = {agent_id: [] for agent_id in agents}
    for kind, of_kind in _by_kind(devices).items():
        given = partitioners.get(kind, by_device)(of_kind, agents=agents)
        _check(of_kind, given, kind=kind, agents=agents)
        for agent_id, part in zip(agents, given, strict=True):
            parts[agent_id] += part
    return {agent_id: tuple(part) for agent_id, part in parts.items()}


def left_over(devices: Iterable[Device], *, parts: Parts) -> list[str]:
    """Devices in no part, for messages: names, and the remaining amounts of devices that were cut."""
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
    """An agent's part of the node's capacity, per slot, as decimal text: 2 of 5 devices are 0.4.

    Args:
        node: all devices of the node.
        slots: further slots to include; a slot without a device has the factor 0.
    """
    whole, own = _capacities(node), _capacities(part)
    return {slot: _factor(own[slot], whole[slot]) for slot in sorted({*whole, *slots})}


def _evenly(amount: int, *, agents: int) -> list[int]:
    each, more = divmod(amount, agents)
    return [each + (index < more) for index in range(agents)]


def _families(devices: Sequence[Device]) -> list[list[Device]]:
    """Devices with their slices; a slice without its parent is a family of its own."""
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
    """Check the result of a partitioner, which may be a plug-in."""
    if len(given) != len(agents):
        raise PartitionRefused(f"the partitioner of {kind} made {len(given)} parts for {len(agents)} agents")
    known = {device.id: device for device in devices}
    left = {device.id: device.budget for device in devices}
    seen: set[DeviceId] = set()
    for device in (device for part in given for device in part):
        source = device.id if device.id in known else device.parent
        if source not in known or device.budget <= 0 or (device.id in known and device != known[device.id]):
            raise PartitionRefused(
                f"the partitioner of {kind} returned {device.id}, which is no device of the node nor a piece of one"
            )
        left[source] -= device.budget
        if left[source] < 0 or device.id in seen:
            raise PartitionRefused(f"the partitioner of {kind} returned {known[source].name} twice")
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


class DeviceClaim(Struct, frozen=True, kw_only=True):
    """Devices that an operator names for one agent; it gets no others."""

    agent_id: AgentId
    devices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By kind, including `cpu`: names (`cuda0`), ids or numbers. A device includes its slices."""
    memory_bytes: int = 0


def claimed(devices: Iterable[Device], *, claims: Sequence[DeviceClaim]) -> Parts:
    """Divide a node by claims.

    Raises:
        PartitionRefused: unknown kind or device, a device or a part of it claimed twice, or too much memory claimed.
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
        raise PartitionRefused(f"agent {agent_id}: device {device.name} appears twice")
    if other is not None:
        raise PartitionRefused(
            f"device {device.name} is given to two agents, {other} and {agent_id}; it can belong to one of them"
        )
    owners[device.id] = agent_id


def _share_memory(
    claims: Sequence[DeviceClaim], *, pools: Sequence[Device], parts: dict[AgentId, list[Device]]
) -> None:
    """Take each agent's memory from one pool after another."""
    wanted, there = sum(claim.memory_bytes for claim in claims), sum(pool.budget for pool in pools)
    if wanted > there:
        raise PartitionRefused(
            f"the memory of the agents adds up to {format_size(wanted)}, but this node has {format_size(there)}"
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


class DeviceSelection(Struct, frozen=True, kw_only=True):
    """Names (`cuda0`) or ids of devices. A whole device includes its slices."""

    include: frozenset[str] = frozenset()
    """If a kind is named here, only these devices of it are used; of other kinds, all are."""
    exclude: frozenset[str] = frozenset()

    def of(self, devices: Iterable[Device]) -> tuple[Device, ...]:
        """The selected devices, in their order."""
        devices = tuple(devices)
        wanted = _selected(devices, self.include)
        unwanted = _selected(devices, self.exclude)
        narrowed = {device.kind for device in devices if device.id in wanted}
        return tuple(
            device
            for device in devices
            if device.id not in unwanted and (device.id in wanted or device.kind not in narrowed)
        )

    def check(self, devices: Iterable[Device]) -> None:
        """Check that all named devices exist.

        Raises:
            PartitionRefused: one does not; the message lists the existing ones.
        """
        devices = tuple(devices)
        known = {text for device in devices for text in (device.name, device.id, device.parent)}
        for what, texts in (("include", self.include), ("exclude", self.exclude)):
            unknown = sorted(texts - known)
            if unknown:
                listed = ", ".join(device.name for device in devices)
                raise PartitionRefused(f"devices.{what}: there is no device {', '.join(unknown)}; there are {listed}")


def _selected(devices: Iterable[Device], texts: frozenset[str]) -> set[DeviceId]:
    """Ids of the named devices and of their slices."""
    devices = tuple(devices)
    named = {device.id for device in devices if device.name in texts or device.id in texts}
    return named | {device.id for device in devices if device.parent in named or device.parent in texts}
