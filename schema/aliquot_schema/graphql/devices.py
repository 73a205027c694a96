"""Devices and their holders."""

from datetime import datetime

import strawberry

from aliquot_schema.graphql.enums import DeviceHealth, Isolation, LeaseKind
from aliquot_schema.graphql.scalars import BigInt


@strawberry.type(description="Who holds a part of a device.")
class Holder:
    lease_id: strawberry.ID = strawberry.field(description="The right by which it is held.")
    kind: LeaseKind = strawberry.field(description="What kind of right that is.")
    user: str = strawberry.field(description="Who answers for it.")
    session_id: strawberry.ID | None = strawberry.field(description="The session, when one holds it.")
    kernel_id: strawberry.ID | None = strawberry.field(description="The kernel, when one holds it.")
    agent_id: strawberry.ID = strawberry.field(
        description="The agent through which it is held; on a shared device not always the one that shows it."
    )
    share: str = strawberry.field(description="How much: 1.00 is one whole device of capacity 1.")
    since: datetime = strawberry.field(description="When it was granted.")
    until: datetime | None = strawberry.field(description="When it ends by itself; null when it does not.")
    isolation: Isolation = strawberry.field(description="What keeps this holder apart from the others.")


@strawberry.type(description="One device: what it is, how it is, and who holds it.")
class Device:
    id: strawberry.ID = strawberry.field(description="Stable over reboots: a GPU's UUID.")
    name: str = strawberry.field(description="Kind and index, like cuda0.")
    kind: str = strawberry.field(description="What its slots begin with: cuda, rocm, cpu, mem.")
    model: str = strawberry.field(description="The maker's name for it.")
    health: DeviceHealth = strawberry.field(description="Whether it may be given to somebody new.")
    isolation: Isolation = strawberry.field(description="What keeps its holders apart.")
    numa_node: int | None = strawberry.field(description="The NUMA node that it hangs on, where known.")
    parent_id: strawberry.ID | None = strawberry.field(description="The whole device that this slice is cut from.")
    linked_to: list[strawberry.ID] = strawberry.field(
        description="Devices that it reaches by a direct link, like NVLink or by way of NVSwitch."
    )
    link_group: int | None = strawberry.field(
        description="Devices of one agent with the same number reach each other by such links; null where it has none."
    )
    memory_bytes: BigInt = strawberry.field(description="Its own memory; 0 where it has none.")
    capacity: str = strawberry.field(description="All of it: shares of an accelerator, else cores or bytes.")
    used: str = strawberry.field(description="What is held, as `capacity` counts.")
    free: str = strawberry.field(description="What is left, as `capacity` counts.")
    holders: list[Holder] = strawberry.field(description="Who holds a part of it, through other agents too.")
    utilization_pct: float | None = strawberry.field(description="Busy share of the last sample, 0 to 100.")
    memory_used_bytes: BigInt | None = strawberry.field(description="Memory in use at the last sample.")
    temperature_c: float | None = strawberry.field(description="Degrees Celsius at the last sample.")
    power_w: float | None = strawberry.field(description="Watts at the last sample.")
    external: bool = strawberry.field(
        description="Whether processes that are none of ours use it, and it is therefore given to nobody."
    )


@strawberry.type(description="A GPU, in the fewest words; `Device` says more.")
class Gpu:
    id: strawberry.ID = strawberry.field(description="Stable over reboots.")
    node_id: strawberry.ID = strawberry.field(description="The host that it is in.")
    name: str = strawberry.field(description="Kind and index, like cuda0.")
    model: str = strawberry.field(description="The maker's name for it.")
    available: bool = strawberry.field(description="Whether what is free of it may be given to somebody.")
    memory_total: BigInt = strawberry.field(description="Bytes.")
    memory_used: BigInt | None = strawberry.field(description="Bytes at the last sample.")
    utilization: float | None = strawberry.field(description="Percent at the last sample.")
    temperature: float | None = strawberry.field(description="Degrees Celsius at the last sample.")
    allocated: float = strawberry.field(description="The part of it that is held, 0 to 1.")
    allocated_to: list[Holder] = strawberry.field(description="By whom.")
