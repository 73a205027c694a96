"""GraphQL API of parts of a session: preemption, preflight, image pull, idle notice, saved work."""

from datetime import datetime

import strawberry

from aliquot_schema.graphql.enums import IdleAction, IdleStep, PreemptionCause
from aliquot_schema.graphql.scalars import BigInt


@strawberry.type(description="The last preemption of a session: for whose benefit, why, and how much work was lost.")
class Preemption:
    cause: PreemptionCause = strawberry.field(description="Cause of the preemption.")
    by_session: strawberry.ID | None = strawberry.field(description="The session it was preempted for; null = none.")
    by_user: str = strawberry.field(description="The user it was preempted for, or who requested it.")
    at: datetime = strawberry.field(description="When it was preempted.")
    until: datetime = strawberry.field(description="End of its grace period; it is stopped then.")
    lost_gpu_seconds: float | None = strawberry.field(
        description="Usage of the preempted attempt since its last acknowledged checkpoint; null until it has ended."
    )


@strawberry.type(description="The check before a session's command, and its last failure. It uses no retry.")
class Preflight:
    command: list[str] = strawberry.field(description="Its command; empty = the agent's own check.")
    time_limit: float = strawberry.field(description="Seconds; a check that runs longer has failed.")
    failures: int = strawberry.field(description="Attempts that it ended; each left out one more node.")
    agent_id: strawberry.ID | None = strawberry.field(description="Agent on which it failed last; null = on none.")
    message: str | None = strawberry.field(description="What failed last, with the end of the check's output.")
    failed_at: datetime | None = strawberry.field(description="When it failed last.")


@strawberry.type(description="The pull of a session's image on one of its agents; of a gang, one rank at a time.")
class ImagePull:
    agent_id: strawberry.ID = strawberry.field(description="The agent.")
    rank: int = strawberry.field(description="The kernel that it is for.")
    began_at: datetime = strawberry.field(description="When it began.")
    ended_at: datetime | None = strawberry.field(
        description="When the image was there; null = it goes on or has failed."
    )
    bytes_done: BigInt = strawberry.field(description="Bytes of the layers that were fetched, as they are sent.")
    bytes_total: BigInt = strawberry.field(description="Bytes of the layers found so far; it grows at first.")
    layers_done: int = strawberry.field(description="Layers that are complete.")
    layers: int = strawberry.field(description="Layers found so far.")
    size: BigInt | None = strawberry.field(description="Size of the image on the node in bytes; null = not known yet.")


@strawberry.type(description="A running session that does not use its GPUs, and what follows.")
class IdleNotice:
    action: IdleAction = strawberry.field(description="What the policy does about it.")
    step: IdleStep | None = strawberry.field(
        description="The last step; null = only the alert rule `gpu_idle` reports it."
    )
    message: str = strawberry.field(description="How long it has not used its GPUs, and what follows.")
    acts_at: datetime | None = strawberry.field(
        description="From when on it loses its GPUs to a waiting session; null = it does not."
    )


@strawberry.type(description="The last acknowledged checkpoint of a session, and the work that its requeues lost.")
class SavedWork:
    kept: float = strawberry.field(
        description="Run time, in seconds, whose work that checkpoint holds; 0 = none is in force."
    )
    saved_at: datetime | None = strawberry.field(description="When the last one was acknowledged; null = never.")
    agent_id: strawberry.ID | None = strawberry.field(description="The agent that has it.")
    resumed_from: float = strawberry.field(
        description="`kept` of the checkpoint that its newest attempt started from; 0 = it started from nothing."
    )
    note: str | None = strawberry.field(
        description="Why it started from less than its last checkpoint; null = it did not."
    )
    lost_gpu_seconds: float = strawberry.field(description="GPU time whose work was lost by requeues.")
    credited_gpu_seconds: float = strawberry.field(description="Part of it that its owner is not charged for.")
