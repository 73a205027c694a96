"""Session parts.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.enums import IdleAction, IdleStep, PreemptionCause


class IdleNotice(Struct, frozen=True, kw_only=True):
    """A running session that does not use its GPUs, and what follows."""

    action: IdleAction
    """What the policy does about it."""
    step: IdleStep | None
    """The last step; null = only the alert rule `gpu_idle` reports it."""
    message: str
    """How long it has not used its GPUs, and what follows."""
    acts_at: datetime | None
    """From when on it loses its GPUs to a waiting session; null = it does not."""


class ImagePull(Struct, frozen=True, kw_only=True):
    """The pull of a session's image on one of its agents; of a gang, one rank at a time."""

    agent_id: str
    """The agent."""
    rank: int
    """The kernel that it is for."""
    began_at: datetime
    """When it began."""
    ended_at: datetime | None
    """When the image was there; null = it goes on or has failed."""
    bytes_done: int
    """Bytes of the layers that were fetched, as they are sent."""
    bytes_total: int
    """Bytes of the layers found so far; it grows at first."""
    layers_done: int
    """Layers that are complete."""
    layers: int
    """Layers found so far."""
    size: int | None
    """Size of the image on the node in bytes; null = not known yet."""


class Preemption(Struct, frozen=True, kw_only=True):
    """The last preemption of a session: for whose benefit, why, and how much work was lost."""

    cause: PreemptionCause
    """Cause of the preemption."""
    by_session: str | None
    """The session it was preempted for; null = none."""
    by_user: str
    """The user it was preempted for, or who requested it."""
    at: datetime
    """When it was preempted."""
    until: datetime
    """End of its grace period; it is stopped then."""
    lost_gpu_seconds: float | None
    """Usage of the preempted attempt since its last acknowledged checkpoint; null until it has ended."""


class Preflight(Struct, frozen=True, kw_only=True):
    """The check before a session's command, and its last failure. It uses no retry."""

    command: tuple[str, ...]
    """Its command; empty = the agent's own check."""
    time_limit: float
    """Seconds; a check that runs longer has failed."""
    failures: int
    """Attempts that it ended; each left out one more node."""
    agent_id: str | None
    """Agent on which it failed last; null = on none."""
    message: str | None
    """What failed last, with the end of the check's output."""
    failed_at: datetime | None
    """When it failed last."""


class SavedWork(Struct, frozen=True, kw_only=True):
    """The last acknowledged checkpoint of a session, and the work that its requeues lost."""

    kept: float
    """Run time, in seconds, whose work that checkpoint holds; 0 = none is in force."""
    saved_at: datetime | None
    """When the last one was acknowledged; null = never."""
    agent_id: str | None
    """The agent that has it."""
    resumed_from: float
    """`kept` of the checkpoint that its newest attempt started from; 0 = it started from nothing."""
    note: str | None
    """Why it started from less than its last checkpoint; null = it did not."""
    lost_gpu_seconds: float
    """GPU time whose work was lost by requeues."""
    credited_gpu_seconds: float
    """Part of it that its owner is not charged for."""
