"""State machines of sessions, kernels and agents: the states and the allowed moves. Every other move is rejected."""

from collections.abc import Mapping
from typing import Final

from aliquot_schema.enums import DescribedStr


class SessionState(DescribedStr):
    """State of a session."""

    QUEUED = (
        "queued",
        "Waiting to be placed; `waits` says why. Also after a failed launch, or the loss of an agent.",
    )
    HELD = "held", "Skipped by the scheduler because of a dependency, a reservation, or a hold by a user."
    SCHEDULED = "scheduled", "Devices are granted and committed; nothing was sent to the agents yet."
    ALLOCATING = "allocating", "The launch orders were sent to the agents."
    RUNNING = (
        "running",
        "Every kernel was reported started. A job array: every task has a session of its own, and not all have ended.",
    )
    PREEMPTING = "preempting", "Being preempted; runs until it ends or its grace period is over."
    COMPLETED = "completed", "Every kernel exited with code 0."
    FAILED = "failed", "A kernel exited with another code or by a signal, or could not be run; `failure` says which."
    CANCELED = (
        "canceled",
        "A user stopped it. Its attempt may still be stopping and holds its devices until its processes are gone.",
    )


class ServiceState(DescribedStr):
    """State of a web service of a session."""

    WAITING = "waiting", "The session has not started."
    RUNNING = "running", "The session runs. Whether its program listens yet is known when the service is opened."
    ENDED = "ended", "The session has ended."


class KernelState(DescribedStr):
    """State of a kernel, one rank of an attempt."""

    GRANTED = "granted", "Holds devices; nothing was sent to the agent."
    STARTING = "starting", "Sent to the agent; it may have started even if no answer arrived."
    RUNNING = "running", "Its processes run."
    STOPPING = "stopping", "The agent was asked to stop it; it holds its devices until there is evidence of its end."
    EXITED = "exited", "Its processes are proven gone; its devices are free."
    UNKNOWN = "unknown", "Its agent is unreachable; its devices stay held."


class AgentState(DescribedStr):
    """State of an agent, as the server sees it."""

    ALIVE = (
        "alive",
        "Its heartbeats arrive. After the death of a leader, the agents inside it stay alive until another "
        "server leads and has missed three of their heartbeats.",
    )
    SUSPECT = "suspect", "Missed some heartbeats; gets no new work."
    LOST = "lost", "Missed heartbeats for long; its devices stay held, because its jobs may still be running."
    LEFT = "left", "Signed off, or was removed; has no capacity."


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
"""Sessions without an attempt that holds devices."""
ACTIVE: Final = frozenset({S.SCHEDULED, S.ALLOCATING, S.RUNNING, S.PREEMPTING})
ENDED: Final = frozenset({S.COMPLETED, S.FAILED, S.CANCELED})
