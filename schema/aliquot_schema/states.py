"""States, and the only moves between them. Who makes a move is said beside it; everything else is refused."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class SessionState(StrEnum):
    """Where a session is on its way."""

    QUEUED = "queued"
    """Waits to be placed; has one primary reason after each pass. Entered on submit, launch failure, agent loss."""
    HELD = "held"
    """Not looked at by the allocator: a dependency, a reservation or a person holds it back."""
    SCHEDULED = "scheduled"
    """Devices are granted and committed; not yet sent to its agents. Entered by the allocator."""
    ALLOCATING = "allocating"
    """Sent to its agents. Entered by the launcher."""
    RUNNING = "running"
    """Every kernel was reported started; of a job array: every task was split off, and not all have ended."""
    PREEMPTING = "preempting"
    """Asked to make room; runs until it ends or its grace is over."""
    COMPLETED = "completed"
    """Every kernel exited with code 0."""
    FAILED = "failed"
    """A kernel exited with another code or by a signal, or it could not be run; `failure` says which."""
    CANCELED = "canceled"
    """A person stopped it. Its attempt may still be stopping, and holds its devices until its processes are gone."""


class KernelState(StrEnum):
    """Where one rank of an attempt is."""

    GRANTED = "granted"
    """Holds devices; nothing was started."""
    STARTING = "starting"
    """Sent to the agent; from here on it may have started even if no answer came."""
    RUNNING = "running"
    STOPPING = "stopping"
    """Asked to stop; holds its devices until there is evidence of its end."""
    EXITED = "exited"
    """There is evidence that its processes are gone; its devices are free."""
    UNKNOWN = "unknown"
    """Its agent cannot be asked; its devices stay held."""


class AgentState(StrEnum):
    """How the server sees an agent."""

    ALIVE = "alive"
    SUSPECT = "suspect"
    """Silent for some beats; gets nothing new."""
    LOST = "lost"
    """Silent for long; its devices are quarantined, since its jobs may still be running."""
    LEFT = "left"
    """Said good-bye, or was removed; reports no capacity."""


S = SessionState
K = KernelState

SESSION_MOVES: Final[Mapping[SessionState, frozenset[SessionState]]] = {
    S.QUEUED: frozenset({S.SCHEDULED, S.HELD, S.RUNNING, S.COMPLETED, S.FAILED, S.CANCELED}),
    S.HELD: frozenset({S.QUEUED, S.FAILED, S.CANCELED}),
    S.SCHEDULED: frozenset({S.ALLOCATING, S.QUEUED, S.FAILED, S.CANCELED}),
    S.ALLOCATING: frozenset({S.RUNNING, S.QUEUED, S.COMPLETED, S.FAILED, S.CANCELED}),
    S.RUNNING: frozenset({S.COMPLETED, S.FAILED, S.CANCELED, S.PREEMPTING, S.QUEUED}),
    S.PREEMPTING: frozenset({S.QUEUED, S.COMPLETED, S.FAILED, S.CANCELED}),
    S.COMPLETED: frozenset(),
    S.FAILED: frozenset(),
    S.CANCELED: frozenset(),
}

KERNEL_MOVES: Final[Mapping[KernelState, frozenset[KernelState]]] = {
    K.GRANTED: frozenset({K.STARTING, K.EXITED}),
    K.STARTING: frozenset({K.RUNNING, K.STOPPING, K.EXITED, K.UNKNOWN}),
    K.RUNNING: frozenset({K.STOPPING, K.EXITED, K.UNKNOWN}),
    K.STOPPING: frozenset({K.EXITED, K.UNKNOWN}),
    K.UNKNOWN: frozenset({K.RUNNING, K.STOPPING, K.EXITED}),
    K.EXITED: frozenset(),
}

AGENT_MOVES: Final[Mapping[AgentState, frozenset[AgentState]]] = {
    AgentState.ALIVE: frozenset({AgentState.SUSPECT, AgentState.LOST, AgentState.LEFT}),
    AgentState.SUSPECT: frozenset({AgentState.ALIVE, AgentState.LOST, AgentState.LEFT}),
    AgentState.LOST: frozenset({AgentState.ALIVE, AgentState.LEFT}),
    AgentState.LEFT: frozenset({AgentState.ALIVE}),
}

PENDING: Final = frozenset({S.QUEUED, S.HELD})
"""Sessions without devices of a present attempt."""
ACTIVE: Final = frozenset({S.SCHEDULED, S.ALLOCATING, S.RUNNING, S.PREEMPTING})
ENDED: Final = frozenset({S.COMPLETED, S.FAILED, S.CANCELED})
