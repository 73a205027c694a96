"""Kernels: the ranks of an attempt."""

from datetime import datetime

import strawberry

from aliquot_schema.graphql.amounts import SlotGrant
from aliquot_schema.graphql.enums import KernelState


@strawberry.type(description="One rank of one attempt of a session: one process tree on one agent.")
class Kernel:
    id: strawberry.ID = strawberry.field(description="`<session>.<attempt>.<rank>`.")
    session_id: strawberry.ID = strawberry.field(description="Its session.")
    attempt: int = strawberry.field(description="From 1.")
    rank: int = strawberry.field(description="From 0.")
    agent_id: strawberry.ID = strawberry.field(description="Where it runs.")
    state: KernelState = strawberry.field(description="Where it is on its way.")
    resource_spec: list[SlotGrant] = strawberry.field(description="Exactly what it was given.")
    holds_devices: bool = strawberry.field(description="Whether its devices are still held.")
    granted_at: datetime = strawberry.field(description="When its devices were given to it.")
    started_at: datetime | None = strawberry.field(description="When its process started.")
    ended_at: datetime | None = strawberry.field(description="When the last of its processes was gone.")
    exit_code: int | None = strawberry.field(description="Null while it runs, and when a signal ended it.")
    signal: int | None = strawberry.field(description="The signal that ended it.")
    timed_out: bool = strawberry.field(description="Whether the time limit ended it.")
    message: str | None = strawberry.field(description="Why it could not be started, in words.")
