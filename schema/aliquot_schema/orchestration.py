"""Orchestration: whether the allocator places anything new. One state for all servers, kept over restarts."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from aliquot_schema.ids import OrchestrationId, UserId

ORCHESTRATION_ID: Final = OrchestrationId("orchestration")
"""The one record's id."""
NOBODY: Final = UserId("")


class OrchestratorState(StrEnum):
    """What the allocator does. Sessions that run, the reaper and submissions go on in both states."""

    RUNNING = "running"
    """Passes place what waits, and preempt where the policy says so."""
    STOPPED = "stopped"
    """Nothing new is placed or preempted until somebody starts it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orchestration:
    """Who stopped or started the orchestrator last, and when."""

    id: OrchestrationId = ORCHESTRATION_ID
    version: int = 0
    """0 = nobody ever did; it runs."""
    state: OrchestratorState = OrchestratorState.RUNNING
    changed_by: UserId = NOBODY
    changed_us: int = 0
    note: str | None = None
    """Why, in that person's words."""

    @property
    def is_stopped(self) -> bool:
        """Whether nothing new is placed."""
        return self.state is OrchestratorState.STOPPED
