"""Read models of parts of a session: failure, preemption, saved work, web services."""

from datetime import datetime
from typing import Protocol

from msgspec import Struct

from aliquot_schema.policies import IdleAction, IdleStep
from aliquot_schema.sessions import PreemptionCause
from aliquot_schema.states import ServiceState


class FailureView(Struct, frozen=True, kw_only=True):
    """Why a session failed."""

    code: str
    message: str


class PreemptionView(Struct, frozen=True, kw_only=True):
    """The last preemption of a session."""

    cause: PreemptionCause
    by_session: str | None
    by_user: str
    at: datetime
    until: datetime
    lost_gpu_seconds: float | None


class PreflightView(Struct, frozen=True, kw_only=True):
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


class ImagePullView(Struct, frozen=True, kw_only=True):
    """The pull of a session's image on one agent; sizes in bytes."""

    agent_id: str
    rank: int
    began_at: datetime
    ended_at: datetime | None
    """None = it goes on, or it has failed."""
    bytes_done: int
    bytes_total: int
    layers_done: int
    layers: int
    size: int | None


class IdleNoticeView(Struct, frozen=True, kw_only=True):
    """A running session that does not use its GPUs."""

    action: IdleAction
    step: IdleStep | None
    """None = only the alert rule `gpu_idle` reports it."""
    message: str
    acts_at: datetime | None
    """When it may lose its GPUs; None = it does not."""


class SavedWorkView(Struct, frozen=True, kw_only=True):
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


class SessionServiceView(Struct, frozen=True, kw_only=True):
    """A web service of a session."""

    name: str
    port: int | None
    """None = one that is chosen when it starts."""
    asked_port: int
    """As it was submitted; 0 = the server chooses."""
    url: str
    """Path on the server that signs the owner's browser in to it."""
    state: ServiceState


class _Named(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str | None: ...


def session_label(session: _Named) -> str:
    """`name (id)`, or the id of a session without a name."""
    return session.id if session.name is None else f"{session.name} ({session.id})"
