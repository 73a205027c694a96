"""What is followed: a session as it moves, and devices as they change."""

from datetime import datetime

import strawberry

from aliquot_schema.graphql.devices import Device
from aliquot_schema.graphql.kernels import Kernel
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.graphql.sessions import Session


@strawberry.type(description="One committed change of a session or of one of its kernels.")
class SessionUpdate:
    event_number: BigInt = strawberry.field(description="Reconnect with `after` set to it to miss nothing.")
    at: datetime = strawberry.field(description="When it was committed.")
    kind: str = strawberry.field(description="What happened, like session.running or kernel.exited; or snapshot.")
    is_snapshot: bool = strawberry.field(description="Whether nothing happened, and this is how the session stands.")
    session: Session = strawberry.field(
        description="The session: after its own change as right after it, else as it is when this is sent, which its "
        "kernels and places are in any case."
    )
    kernel: Kernel | None = strawberry.field(
        description="The kernel that changed, as it was right after it; null when the session itself did."
    )


@strawberry.type(description="What is another way among the devices of one agent.")
class AgentDevices:
    agent_id: strawberry.ID = strawberry.field(description="The agent.")
    node_id: strawberry.ID = strawberry.field(description="The host that it is on.")
    gpu_alloc_map: str = strawberry.field(description="As of `Agent`.")
    devices: list[Device] = strawberry.field(description="Devices that are new or another way; in a snapshot, all.")
    devices_gone: list[strawberry.ID] = strawberry.field(description="Devices that it has no more.")


@strawberry.type(description="What changed among all devices since the update before.")
class DeviceUpdate:
    number: BigInt = strawberry.field(description="Reconnect with `after` set to it to be told what changed since.")
    revision: BigInt = strawberry.field(description="The number of the last event that this knows of.")
    is_snapshot: bool = strawberry.field(description="Whether this is everything: forget what you knew.")
    agents_gone: list[strawberry.ID] = strawberry.field(
        description="Forget these before you take in `agents`, where they may be back."
    )
    agents: list[AgentDevices] = strawberry.field(description="Agents of which something is another way.")
