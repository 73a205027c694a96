"""What people ask for, as it came in: callers, filters, pages and new sessions, before anything is validated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from aliquot_schema.ids import KeyId, ProjectId, UserId
from aliquot_schema.roles import Role as Role
from aliquot_schema.session_lists import SessionFilter as SessionFilter
from aliquot_schema.session_lists import SessionOrder as SessionOrder
from aliquot_schema.states import AgentState
from aliquot_schema.views import SessionView


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks."""

    user: UserId
    request_id: str
    role: Role
    projects: tuple[ProjectId, ...] = ()
    """Whose sessions the caller takes part in; see `accounts.User`."""
    key_id: KeyId | None = None
    """By which key; None = by the server's own token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """Which piece of a list."""

    first: int
    after: str | None = None


class AgentOrder(StrEnum):
    """In which order agents are listed; natural order, node2 before node10."""

    ID = "id"
    HOSTNAME = "hostname"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFilter:
    """Which agents. Empty tuples do not filter."""

    ids: tuple[str, ...] = ()
    states: tuple[AgentState, ...] = ()
    node_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFallback:
    """A smaller request, as it came in."""

    slots: Sequence[tuple[str, str]]
    after_s: float
    cluster_size: int | None = None
    """None = as the session asked first."""
    gpu_memory_gb: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A request as it came in: nothing is validated yet, amounts are text."""

    argv: tuple[str, ...] | None
    shell: str | None
    slots: Sequence[tuple[str, str]]
    cluster_size: int = 1
    gpu_memory_gb: str | None = None
    environment: Sequence[tuple[str, str]] = ()
    working_directory: str | None = None
    priority: str = "normal"
    estimated_duration: float | None = None
    time_limit: float | None = None
    max_retries: int = 0
    preemptible: bool = False
    depends_on: Sequence[tuple[str, str]] = ()
    """(session id, condition)."""
    name: str | None = None
    run_id: str | None = None
    tags: Sequence[tuple[str, str]] = ()
    idempotency_key: str | None = None
    project: str | None = None
    pool: str | None = None
    labels: Sequence[tuple[str, str]] = ()
    preferred_labels: Sequence[tuple[str, str]] = ()
    models: Sequence[str] = ()
    preferred_models: Sequence[str] = ()
    fallbacks: Sequence[NewFallback] = ()
    retries_own_failures: bool = False
    checkpoint_signal: str | None = None
    """A name or a number: `SIGUSR1`, `10`."""
    grace: float | None = None
    """Seconds."""
    array: str | None = None
    """Indices of a job array: `0-99,105`."""
    max_parallel: int | None = None
    held: bool = False
    """Submit it held back, to be released by hand."""
    local_name: str | None = None
    """Within `create_sessions`: how others of the batch name it in `depends_on`."""
    outside: float | None = None
    """Seconds: it runs nothing, and holds devices for so long for work run outside, see `SessionSpec.outside_ms`."""
    processes: int | None = None
    """Processes and threads that each kernel may have."""
    open_files: int | None = None
    """Files that each of its processes may have open."""
    sandbox: str | None = None
    """The profile that it demands."""
    secrets: Sequence[tuple[str, str | None, str | None]] = ()
    """(name, variable, file)."""
    unsupported: Mapping[str, object] = field(default_factory=dict)
    """Fields that were set and that nothing acts on yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChanged:
    """What a mutation did."""

    session: SessionView
    revision: int
    created: bool = False
    """False when an idempotency key answered with what was there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsCreated:
    """What submitting a batch did."""

    results: tuple[SessionChanged, ...]
    """In the order in which they were given."""
    revision: int
