"""What scripts send: bodies and query parameters, checked by their types; the services check the rest."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from aliquot_schema.outside_views import LEASE_S
from aliquot_schema.session_lists import SessionOrder
from aliquot_schema.states import SessionState

Text = Annotated[str, Meta(min_length=1, max_length=256)]
Command = Annotated[str, Meta(min_length=1)]
Arguments = Annotated[list[str], Meta(min_length=1)]
Gpus = Annotated[float, Meta(ge=0, le=100_000, description="Whole GPUs, or shares of one like 0.25.")]
Memory = Annotated[float, Meta(gt=0, le=1_000_000, description="The least memory per GPU, in 10^9 bytes.")]
Seconds = Annotated[float, Meta(gt=0, le=315_360_000, description="Seconds.")]
Moment = Annotated[datetime, Meta(tz=True, description="RFC 3339; included.")]
Level = Literal["low", "normal", "high", "critical", 1, 2, 3, 4]


class SubmitJob(Struct, kw_only=True, forbid_unknown_fields=True):
    """A command for the queue: text is run by /bin/sh, a list as it is."""

    command: Command | Arguments
    gpu_count: Gpus = 1
    memory_gb: Memory | None = None
    priority: Level = "normal"
    estimated_duration: Seconds | None = None
    time_limit: Seconds | None = None
    max_retries: Annotated[int, Meta(ge=0, le=100)] = 0
    name: Text | None = None
    run_id: Text | None = None
    project: Text | None = None
    pool: Text | None = None


class NewPriority(Struct, kw_only=True, forbid_unknown_fields=True):
    """How urgent a job is from now on."""

    priority: Level
    expected_version: int | None = None


class AllocateGpus(Struct, kw_only=True, forbid_unknown_fields=True):
    """GPUs for work that is run outside. The same `job_id` again holds them for longer."""

    job_id: Annotated[str, Meta(min_length=1, max_length=128)]
    gpu_count: Annotated[float, Meta(gt=0, le=100_000, description="Whole GPUs, or shares of one like 0.25.")] = 1
    memory_gb: Memory | None = None
    lease: Annotated[float, Meta(gt=0, le=604_800, description="Seconds until it has to be called for again.")] = (
        LEASE_S
    )
    project: Text | None = None
    pool: Text | None = None


class ReleaseGpus(Struct, kw_only=True, forbid_unknown_fields=True):
    """Gives back what a job holds."""

    job_id: Annotated[str, Meta(min_length=1, max_length=128)]


class Note(Struct, kw_only=True, forbid_unknown_fields=True):
    """Why, in a person's words."""

    note: Text | None = None


class Piece(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which piece of a list."""

    first: Annotated[int, Meta(ge=1, le=100)] = 100
    after: str | None = None


class SessionsAsked(Piece, kw_only=True, forbid_unknown_fields=True):
    """Which sessions, in which order; what is not given does not filter."""

    order: SessionOrder = SessionOrder.NEWEST
    state: SessionState | None = None
    owner: str | None = None
    project: str | None = None
    pool: str | None = None
    priority: Literal["low", "normal", "high", "critical"] | None = None
    run_id: str | None = None
    name: str | None = None
    search: Annotated[str, Meta(max_length=200, description="A part of the name or the id.")] | None = None
    array_id: Annotated[str, Meta(description="Tasks of this job array.")] | None = None
    queued_since: Moment | None = None
    queued_until: Moment | None = None
    started_since: Moment | None = None
    started_until: Moment | None = None
    ended_since: Moment | None = None
    ended_until: Moment | None = None
    exit_code: Annotated[int, Meta(ge=0, le=255)] | None = None
    failure: Annotated[str, Meta(description="A code, like time_limit, signal or exit_code.")] | None = None
    agent_id: Annotated[str, Meta(description="Where the newest attempt is or was.")] | None = None
    node_id: str | None = None
    device_id: str | None = None
