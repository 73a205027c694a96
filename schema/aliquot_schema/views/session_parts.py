"""Read models of parts of a session: failure, preemption, saved work, web services."""

from dataclasses import dataclass
from datetime import datetime

from aliquot_schema.policies import IdleAction, IdleStep
from aliquot_schema.sessions import PreemptionCause
from aliquot_schema.states import ServiceState


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureView:
    """Why a session failed."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionView:
    """The last preemption of a session."""

    cause: PreemptionCause
    by_session: str | None
    by_user: str
    at: datetime
    until: datetime
    lost_gpu_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightView:
    """The check before a session's command, and the last failure of it."""

    command: tuple[str, ...]
    """Empty = the agent's own check."""
    time_limit: float
    """Seconds."""
    failures: int
    """Attempts that it ended."""
    agent_id: str | None
    """Where it failed last; likewise the next two."""
    message: str | None
    failed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleNoticeView:
    """A running session that does not use its GPUs."""

    action: IdleAction
    step: IdleStep | None
    """None = only the alert rule `gpu_idle` reports it."""
    message: str
    acts_at: datetime | None
    """When it may lose its GPUs; None = it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedWorkView:
    """A session's last acknowledged checkpoint, and the work that it lost."""

    kept: float
    """Seconds."""
    saved_at: datetime | None
    agent_id: str | None
    resumed_from: float
    """Seconds."""
    note: str | None
    lost_gpu_seconds: float
    credited_gpu_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionServiceView:
    """A web service of a session."""

    name: str
    port: int | None
    """None = one that is chosen when it starts."""
    asked_port: int
    """As it was submitted; 0 = the server chooses."""
    url: str
    """Path on the server that signs the owner's browser in to it."""
    state: ServiceState
