"""Agents: processes that own devices of a node and run kernels there; their records and the validation of those."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from msgspec import Struct, field
from msgspec.structs import astuple

from aliquot_schema.enums import DescribedStr
from aliquot_schema.ids import AgentId, DeviceId, NodeId, PoolId, SlotName, UserId
from aliquot_schema.resources.confinement import IMAGE_CHARS_MAX, IMAGES_MAX, UNKNOWN_ENFORCEMENT, Enforcement
from aliquot_schema.resources.devices import (
    MEMORY_BYTES_MAX,
    Device,
    DeviceAccess,
    DeviceHealth,
    device_fault,
    number_fault,
    slot_fault,
    text_fault,
)
from aliquot_schema.resources.slots import SlotType
from aliquot_schema.sessions import DEFAULT_POOL
from aliquot_schema.states import AgentState

SLOTS_MAX: Final = 64
"""Slots per agent."""
ATTRIBUTES_MAX: Final = 256
LABELS_MAX: Final = 64
LABEL_CHARS_MAX: Final = 128
NOTE_CHARS_MAX: Final = 1_000
PROSE_CHARS_MAX: Final = 200_000
"""Limit of free text: longer than the longest command line, which a message may quote."""
TOLD_LABEL: Final = "label."
"""Prefix of the attributes by which an agent tells labels of its node."""
TOLD_EVICTION: Final = "eviction"
"""Attribute by which an agent tells that its node is about to be taken away; its value is the reason."""
TOLD_FAULT: Final = "fault."
"""Prefix of the attributes by which an agent tells that a device is in quarantine: its id, and as value the fault."""
SPOT_LABEL: Final = "spot"
"""Label of a node that may be taken away at any time, unless its value is `false`."""
UNTIL_LABEL: Final = "available_until"
"""Label of a node that leaves at a time, in RFC 3339 with an offset: `2026-11-23T18:00:00Z`."""
TIME_US_MAX: Final = 253_402_300_799_999_999
"""End of the year 9999 in microseconds UTC, the range of `datetime`."""
_FACTOR: Final = re.compile(r"\d{1,20}(\.\d{1,40})?", re.ASCII)


class AllocationMode(DescribedStr):
    """How a node's devices are divided among its agents."""

    SHARED = "shared", "Every agent offers all devices of the node; what one of them holds is held for all."
    AUTO_SPLIT = "auto-split", "Each agent gets an equal part of the devices."
    MANUAL = "manual", "Each agent offers the devices that are listed in its settings."


class Capabilities(Struct, frozen=True, kw_only=True):
    """Capabilities of an agent on its node, as detected."""

    kill: str = "subreaper"
    """How a process tree is ended: `cgroup_v2`, `cgroup_v1` or `subreaper`."""
    limits: str = "rlimits"
    """How memory and processes are limited: `cgroup_v2`, `cgroup_v1` or `rlimits`."""
    switches_user: bool = False
    device_access: DeviceAccess = DeviceAccess.ENV
    address: str = ""
    """Address at which kernels of other agents reach kernels here; empty = unknown."""
    port_first: int = 29_500
    """Rendezvous ports of gangs, `port_first` to `port_last`: below the system's ephemeral ports."""
    port_last: int = 30_499
    enforced: Enforcement = UNKNOWN_ENFORCEMENT
    """Mechanism that enforces each limit."""
    sandbox: str = "none"
    """The available sandbox profile: `standard` or `none`."""
    sandbox_mode: str = "off"
    """When kernels run in it: `required`, `when-possible`, `when-asked` or `off`."""
    sandbox_note: str = ""
    """Why no sandbox is available; empty if one is."""
    containers: str = "none"
    """The program that runs containers: `podman`, `docker`, `apptainer` or `none`."""
    containers_note: str = ""
    """Why it runs none; empty if it does."""
    images: tuple[str, ...] = ()
    """Images that it holds for its default job account, at most `IMAGES_MAX`, sorted."""
    lacks: tuple[str, ...] = ()
    """Those of `ABILITIES` that an agent of an earlier release lacks; set by the server."""


class Agent(Struct, frozen=True, kw_only=True):
    """An agent's record. Current usage is not part of it; it is the sum of the agent's leases."""

    id: AgentId
    version: int
    node_id: NodeId
    hostname: str
    state: AgentState = AgentState.ALIVE
    schedulable: bool = True
    devices: tuple[Device, ...] = ()
    """In natural order of names."""
    slot_types: Mapping[SlotName, SlotType] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Attributes from the accelerator configuration file."""
    capabilities: Capabilities = field(default_factory=Capabilities)
    allocation_mode: AllocationMode = AllocationMode.SHARED
    scaling_factor: Mapping[SlotName, str] = field(default_factory=dict)
    """This agent's part of the node's capacity per slot, as decimal text."""
    boot_id: str = ""
    software_version: str = ""
    registered_us: int
    state_changed_us: int
    pool: PoolId = DEFAULT_POOL
    labels: Mapping[str, str] = field(default_factory=dict)
    """Set by operators; sessions can require them."""
    draining: bool = False
    """Nothing new is placed here; running sessions finish or are preempted."""
    note: str | None = None
    """Why it is not schedulable, in the operator's words."""
    evicted_by: UserId | None = None
    """The operator whose drain preempts its sessions, also those that are starting; None = they finish."""

    @property
    def takes_work(self) -> bool:
        """Whether operators, and the owner of its node, allow new work on it."""
        return self.schedulable and not self.draining and self.eviction is None

    @property
    def eviction(self) -> str | None:
        """Why its node is about to be taken away; None = it is not."""
        return self.attributes.get(TOLD_EVICTION)

    @property
    def faults(self) -> Mapping[DeviceId, str]:
        """The hardware fault of each device in quarantine."""
        found = self.attributes.items()
        return {DeviceId(name.removeprefix(TOLD_FAULT)): text for name, text in found if name.startswith(TOLD_FAULT)}

    @property
    def all_labels(self) -> Mapping[str, str]:
        """Labels told by the agent, and those of operators, which win."""
        sent = {name.removeprefix(TOLD_LABEL): value for name, value in self.attributes.items() if is_label(name)}
        return {**sent, **self.labels} if sent else self.labels

    @property
    def is_spot(self) -> bool:
        """Whether its node may be taken away at any time."""
        return self.all_labels.get(SPOT_LABEL, "false").lower() != "false"

    @property
    def until_us(self) -> int | None:
        """When its node leaves, microseconds UTC; None = not known to leave. A label that is no time is ignored."""
        return until_us(self.all_labels.get(UNTIL_LABEL, ""))


def is_label(attribute: str) -> bool:
    """Whether an attribute is a label that the agent tells."""
    return attribute.startswith(TOLD_LABEL)


def until_us(text: str) -> int | None:
    """The time in a label `available_until`; None if the text is no RFC 3339 time with an offset."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if at.tzinfo is None else round(at.timestamp() * 1_000_000)


class KnownSlot(Struct, frozen=True, kw_only=True):
    """A slot that an agent reported at least once. Slots are never deleted; admins can retire them."""

    id: SlotName
    version: int
    type: SlotType
    first_seen_us: int
    retired: bool = False


def agent_fault(agent: Agent) -> str | None:
    """Message about the first invalid field of an agent's record, with its limit; None = valid.

    Applied to what agents report and to records stored by earlier versions.
    """
    return (
        text_fault("node_id", agent.node_id)
        or text_fault("hostname", agent.hostname)
        or text_fault("boot_id", agent.boot_id, least=0)
        or text_fault("software_version", agent.software_version, least=0)
        or text_fault("pool", agent.pool)
        or (None if agent.note is None else prose_fault("note", agent.note))
        or number_fault("version", agent.version, least=0, most=2**53)
        or number_fault("registered_us", agent.registered_us, least=0, most=TIME_US_MAX)
        or number_fault("state_changed_us", agent.state_changed_us, least=0, most=TIME_US_MAX)
        or _devices_fault(agent.devices)
        or _slots_fault(agent)
        or _pairs_fault("attributes", agent.attributes, count=ATTRIBUTES_MAX, chars=NOTE_CHARS_MAX * 10)
        or _pairs_fault("labels", agent.labels, count=LABELS_MAX, chars=LABEL_CHARS_MAX)
        or _capabilities_fault(agent.capabilities)
    )


def prose_fault(field: str, text: str) -> str | None:
    """Message if free text is too long or contains NUL, which databases reject; None = valid."""
    if len(text) > PROSE_CHARS_MAX:
        return f"{field} has {len(text):,} characters; {PROSE_CHARS_MAX:,} are allowed"
    return f"{field} contains the character NUL" if "\0" in text else None


def _devices_fault(devices: Iterable[Device]) -> str | None:
    devices = tuple(devices)
    fault = next(filter(None, map(device_fault, devices)), None)
    if fault is not None:
        return fault
    duplicates = [device_id for device_id, count in Counter(device.id for device in devices).items() if count > 1]
    if duplicates:
        return f"device id {duplicates[0]!r} occurs twice"
    there = sum(device.budget for device in devices if device.health is not DeviceHealth.GONE)
    return number_fault("the sum of all budgets", there, least=0, most=MEMORY_BYTES_MAX)


def _slots_fault(agent: Agent) -> str | None:
    slots = {slot for device in agent.devices for slot in device.costs}
    slots.update(agent.slot_types, agent.scaling_factor)
    fault = number_fault("the number of slots", len(slots), least=0, most=SLOTS_MAX)
    for slot in sorted(slots) if fault is None else ():
        fault = fault or slot_fault(slot)
    for slot, factor in agent.scaling_factor.items():
        if fault is None and not _FACTOR.fullmatch(factor):
            fault = f"scaling_factor of {slot} is {factor[:40]!a}; a decimal number like 0.5 is allowed"
    return fault


def _pairs_fault(field: str, pairs: Mapping[str, str], *, count: int, chars: int) -> str | None:
    fault = number_fault(f"the number of {field}", len(pairs), least=0, most=count)
    for name, value in pairs.items() if fault is None else ():
        fault = fault or text_fault(f"a name in {field}", name) or prose_fault(f"{field}.{name[:40]}", value)
        fault = fault or number_fault(f"the length of {field}.{name[:40]}", len(value), least=0, most=chars)
    return fault


def _capabilities_fault(can: Capabilities) -> str | None:
    texts = (can.kill, can.limits, can.address, can.sandbox, can.sandbox_mode, *astuple(can.enforced))
    fault = next(filter(None, (text_fault("capabilities", text, least=0) for text in texts)), None)
    return (
        fault
        or prose_fault("sandbox_note", can.sandbox_note)
        or text_fault("containers", can.containers)
        or prose_fault("containers_note", can.containers_note)
        or number_fault("the number of images", len(can.images), least=0, most=IMAGES_MAX)
        or next(filter(None, map(_image_fault, can.images)), None)
        or number_fault("port_first", can.port_first, least=1, most=65_535)
        or number_fault("port_last", can.port_last, least=can.port_first, most=65_535)
    )


def _image_fault(image: str) -> str | None:
    length = number_fault("the length of an image's name", len(image), least=1, most=IMAGE_CHARS_MAX)
    return length or text_fault("images", image, most=IMAGE_CHARS_MAX)


class KeyChange(Struct, frozen=True, kw_only=True):
    """A change of an agent's key."""

    id: str
    """`req_<uuid7>` of the command."""
    agent_id: AgentId
    what: str
    """`created`, `replaced` or `revoked`."""
    by: str
    """`unix:<account>`."""
    at_us: int
