"""Sessions: what a user submits, and what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final

from aliquot_schema.ids import AgentId, PoolId, ProjectId, SessionId, UserId
from aliquot_schema.slots import ResourceSlot
from aliquot_schema.states import ENDED, PENDING, SessionState

COMMAND_BYTES_MAX: Final = 128 * 1024
"""argv and environment strings of one kernel share the kernel's limit per string; a command is refused above this."""
CLUSTER_SIZE_MAX: Final = 4096
TAGS_MAX: Final = 64
ENVIRONMENT_MAX: Final = 512
DEPENDENCIES_MAX: Final = 256
RETRIES_MAX: Final = 100
DURATION_S_MAX: Final = 10 * 365 * 86_400

DEFAULT_POOL: Final = PoolId("default")
DEFAULT_PROJECT: Final = ProjectId("default")


class Priority(IntEnum):
    """How urgent a session is. Names and numbers are both accepted."""

    LOW = 1
    NORMAL = 2
    HIGH = 3
    CRITICAL = 4


class DependencyCondition(StrEnum):
    """When a dependency is met: the other session ended well, ended at all, or failed."""

    AFTER_OK = "after_ok"
    AFTER_ANY = "after_any"
    AFTER_FAIL = "after_fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """A session to wait for."""

    session_id: SessionId
    condition: DependencyCondition = DependencyCondition.AFTER_OK


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSpec:
    """What was asked for. Never changes."""

    argv: tuple[str, ...]
    """The program and its arguments; a shell string became `/bin/sh -c STRING`."""
    slots: ResourceSlot
    """Per kernel."""
    cluster_size: int = 1
    """Kernels in the gang."""
    gpu_memory_bytes: int | None = None
    """The least memory per device: all of it for whole devices, share x total for fractions."""
    environment: Mapping[str, str] = field(default_factory=dict)
    working_directory: str | None = None
    estimated_duration_ms: int | None = None
    time_limit_ms: int | None = None
    """Wall time of an attempt; the shim stops it then."""
    max_retries: int = 0
    preemptible: bool = False
    depends_on: tuple[Dependency, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a session failed, for people (`message`) and for programs (`code`)."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session as the store holds it. Times are microseconds UTC."""

    id: SessionId
    version: int
    owner: UserId
    project: ProjectId = DEFAULT_PROJECT
    pool: PoolId = DEFAULT_POOL
    name: str | None = None
    run_id: str | None = None
    """The client's own name for it; need not be unique."""
    tags: Mapping[str, str] = field(default_factory=dict)
    spec: SessionSpec
    priority: Priority = Priority.NORMAL
    state: SessionState = SessionState.QUEUED
    attempt: int = 0
    """Counts the tries; 0 before the first grant."""
    retries: int = 0
    excluded_agents: tuple[AgentId, ...] = ()
    """Agents that refused it for good (no such slot); not tried again."""
    not_before_us: int | None = None
    queued_us: int
    """When it was submitted; keeps its place over retries."""
    scheduled_us: int | None = None
    started_us: int | None = None
    ended_us: int | None = None
    exit_code: int | None = None
    """Of the first rank that failed, else 0. Negative numbers are not used: see `signal`."""
    signal: int | None = None
    failure: Failure | None = None
    idempotency_key: str | None = None
    request_hash: str | None = None

    @property
    def is_ended(self) -> bool:
        """Whether it reached a state that it will never leave."""
        return self.state in ENDED

    @property
    def is_pending(self) -> bool:
        """Whether it waits, with no devices of its own."""
        return self.state in PENDING
