"""Devices.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.enums import DeviceHealth, Isolation, LeaseKind


class Holder(Struct, frozen=True, kw_only=True):
    """Who holds a part of a device."""

    lease_id: str
    """The right by which it is held."""
    kind: LeaseKind
    """What kind of right that is."""
    user: str
    """Who answers for it."""
    session_id: str | None
    """The session, when one holds it."""
    kernel_id: str | None
    """The kernel, when one holds it."""
    agent_id: str
    """The agent through which it is held; on a shared device not always the one that shows it."""
    share: str
    """How much: 1.00 is one whole device of capacity 1."""
    since: datetime
    """When it was granted."""
    until: datetime | None
    """When it ends by itself; null when it does not."""
    isolation: Isolation
    """What keeps this holder apart from the others."""


class Device(Struct, frozen=True, kw_only=True):
    """One device: what it is, how it is, and who holds it."""

    id: str
    """Stable over reboots: a GPU's UUID."""
    name: str
    """Kind and index, like cuda0."""
    kind: str
    """What its slots begin with: cuda, rocm, cpu, mem."""
    model: str
    """The maker's name for it."""
    health: DeviceHealth
    """Whether it may be given to somebody new."""
    isolation: Isolation
    """What keeps its holders apart."""
    numa_node: int | None
    """The NUMA node that it hangs on, where known."""
    parent_id: str | None
    """The whole device that this slice is cut from."""
    linked_to: tuple[str, ...]
    """Devices that it reaches by a direct link, like NVLink or by way of NVSwitch."""
    link_group: int | None
    """Devices of one agent with the same number reach each other by such links; null where it has none."""
    memory_bytes: int
    """Its own memory; 0 where it has none."""
    capacity: str
    """All of it: shares of an accelerator, else cores or bytes."""
    used: str
    """What is held, as `capacity` counts."""
    free: str
    """What is left, as `capacity` counts."""
    holders: tuple[Holder, ...]
    """Who holds a part of it, through other agents too."""
    utilization_pct: float | None
    """Busy share of the last sample, 0 to 100."""
    memory_used_bytes: int | None
    """Memory in use at the last sample."""
    temperature_c: float | None
    """Degrees Celsius at the last sample."""
    power_w: float | None
    """Watts at the last sample."""
    external: bool
    """Whether processes that are none of ours use it, and it is therefore given to nobody."""


class Gpu(Struct, frozen=True, kw_only=True):
    """A GPU, in the fewest words; `Device` says more."""

    id: str
    """Stable over reboots."""
    node_id: str
    """The host that it is in."""
    name: str
    """Kind and index, like cuda0."""
    model: str
    """The maker's name for it."""
    available: bool
    """Whether what is free of it may be given to somebody."""
    memory_total: int
    """Bytes."""
    memory_used: int | None
    """Bytes at the last sample."""
    utilization: float | None
    """Percent at the last sample."""
    temperature: float | None
    """Degrees Celsius at the last sample."""
    allocated: float
    """The part of it that is held, 0 to 1."""
    allocated_to: tuple[Holder, ...]
    """By whom."""
