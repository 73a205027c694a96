"""REST requests: bodies and query parameters, validated by their types; the services validate the rest."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from aliquot_schema.requests import SessionOrder
from aliquot_schema.states import SessionState
from aliquot_schema.views.preview import LEASE_S

Text = Annotated[str, Meta(min_length=1, max_length=256)]
Command = Annotated[str, Meta(min_length=1)]
Arguments = Annotated[list[str], Meta(min_length=1)]
Gpus = Annotated[float, Meta(ge=0, le=100_000, description="Whole GPUs, or shares of one like 0.25.")]
Memory = Annotated[float, Meta(gt=0, le=1_000_000, description="The least memory per GPU, in 10^9 bytes.")]
Duration = Annotated[float, Meta(gt=0, le=315_360_000, description="Seconds, or text like 90s, 2h30m or 1d12h.")] | str
"""Text is parsed by the handler; the service checks the range."""
Moment = Annotated[datetime, Meta(tz=True, description="RFC 3339; inclusive.")]
Level = Literal["low", "normal", "high", "critical", 1, 2, 3, 4, "1", "2", "3", "4"]


class SubmitJob(Struct, kw_only=True, forbid_unknown_fields=True):
    """A command to queue: text is run by /bin/sh, a list is executed directly. `preflight` is a command that checks the
    GPUs first; `default` stands for a bandwidth test."""

    command: Command | Arguments
    gpu_count: Gpus = 1
    cluster_size: Annotated[int, Meta(ge=1, le=4096, description="Number of kernels with `gpu_count` GPUs each.")] = 1
    cluster_size_min: (
        Annotated[int, Meta(ge=1, le=4096, description="The fewest kernels that an elastic gang starts with.")] | None
    ) = None
    memory_gb: Memory | None = None
    priority: Level = "normal"
    estimated_duration: Duration | None = None
    time_limit: Duration | None = None
    max_retries: Annotated[int, Meta(ge=0, le=100)] = 0
    preemptible: bool = False
    checkpoint_signal: Annotated[str, Meta(max_length=32, description="Like SIGUSR1, or a number.")] | None = None
    checkpoint_every: Duration | None = None
    preflight: Command | Arguments | None = None
    preflight_limit: Duration | None = None
    topology: Literal["prefer", "require"] = "prefer"
    name: Text | None = None
    run_id: Text | None = None
    project: Text | None = None
    pool: Text | None = None


class NewPriority(Struct, kw_only=True, forbid_unknown_fields=True):
    """The new priority of a session."""

    priority: Level
    expected_version: int | None = None


class MoreTime(Struct, kw_only=True, forbid_unknown_fields=True):
    """Time to add to the limit of a running session."""

    time: Duration
    expected_version: int | None = None


class ChangedJob(Struct, kw_only=True, forbid_unknown_fields=True):
    """Changes of a waiting session; what is not given stays as it is."""

    gpu_count: Annotated[float, Meta(gt=0, le=100_000, description="GPUs per kernel, or a share of one.")] | None = None
    cluster_size: Annotated[int, Meta(ge=1, le=4096, description="Number of kernels.")] | None = None
    time_limit: Duration | None = None
    preemptible: bool | None = None
    priority: Level | None = None
    project: Text | None = None
    pool: Text | None = None
    models: Annotated[list[str], Meta(description="Allowed models; an empty list allows any.")] | None = None
    expected_version: int | None = None


class AllocateGpus(Struct, kw_only=True, forbid_unknown_fields=True):
    """GPUs for work that you start yourself. The same `job_id` again renews the allocation."""

    job_id: Annotated[str, Meta(min_length=1, max_length=128)]
    gpu_count: Annotated[float, Meta(gt=0, le=100_000, description="Whole GPUs, or shares of one like 0.25.")] = 1
    memory_gb: Memory | None = None
    lease: (
        Annotated[float, Meta(gt=0, le=604_800, description="Seconds until it must be renewed, or text like 10m.")]
        | str
    ) = LEASE_S
    time_limit: (
        Annotated[
            float, Meta(gt=0, description="Seconds after the grant at which it ends, however often it is renewed.")
        ]
        | str
        | None
    ) = None
    project: Text | None = None
    pool: Text | None = None


class ReleaseGpus(Struct, kw_only=True, forbid_unknown_fields=True):
    """Releases the GPUs of an external allocation."""

    job_id: Annotated[str, Meta(min_length=1, max_length=128)]


class Note(Struct, kw_only=True, forbid_unknown_fields=True):
    """The reason, as free text."""

    note: Text | None = None


class Piece(Struct, kw_only=True, forbid_unknown_fields=True):
    """Page of a list."""

    first: Annotated[int, Meta(ge=1, le=100)] = 100
    after: str | None = None


class FilesAsked(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which results of a session."""

    rank: Annotated[int, Meta(ge=0, description="Of the kernel; ranks of one agent share a RESULT_DIR.")] = 0


class SessionsAsked(Piece, kw_only=True, forbid_unknown_fields=True):
    """Filter and order of sessions; parameters that are not given do not filter."""

    order: SessionOrder = SessionOrder.NEWEST
    state: SessionState | None = None
    states: Annotated[str, Meta(max_length=200, description="States, like queued,running; any of them.")] | None = None
    owner: str | None = None
    project: str | None = None
    pool: str | None = None
    priority: Literal["low", "normal", "high", "critical", "1", "2", "3", "4"] | None = None
    run_id: str | None = None
    name: str | None = None
    search: Annotated[str, Meta(max_length=200, description="A part of the name or the id.")] | None = None
    array_id: Annotated[str, Meta(description="Tasks of this job array.")] | None = None
    tag: Annotated[str, Meta(max_length=600, description="A tag that it has: a name, or NAME=VALUE.")] | None = None
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
