"""Orchestrator state: whether the scheduler places sessions; shared by all servers, kept over restarts.

Also `Action`: the record of administrative commands that change no other record.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from aliquot_schema.enums import DescribedStr
from aliquot_schema.ids import OrchestrationId, UserId

ORCHESTRATION_ID: Final = OrchestrationId("orchestration")
"""Id of the single record."""
NO_USER: Final = UserId("")
CLOCK_ACTION: Final = "clock"
"""Id of the record of the last correction of the clock."""
CLOCK_CORRECTED: Final = "action.clock_corrected"
"""Kind of its events. Times of later events may be earlier than those before."""


class OrchestratorState(DescribedStr):
    """State of the orchestrator. Running sessions, the reaper and submissions continue in both states."""

    RUNNING = "running", "Waiting sessions are placed, and preempted as the policy says."
    STOPPED = "stopped", "Nothing is placed or preempted until an operator starts it again."


class OperatingMode(StrEnum):
    """What a server may do. A setting of the server."""

    OBSERVE = "observe"
    """It starts and stops nothing; it records who uses which GPU, and reports to operators."""
    ADVISE = "advise"
    """Likewise, and owners get notices too."""
    ENFORCE = "enforce"
    """It schedules."""


class Orchestration(Struct, frozen=True, kw_only=True):
    """State of the orchestrator and its last change."""

    id: OrchestrationId = ORCHESTRATION_ID
    version: int = 0
    """0 = never changed; it runs."""
    state: OrchestratorState = OrchestratorState.RUNNING
    changed_by: UserId = NO_USER
    changed_us: int = 0
    note: str | None = None
    """Why, in the operator's words."""

    @property
    def is_stopped(self) -> bool:
        """Whether placement is stopped."""
        return self.state is OrchestratorState.STOPPED


class Action(Struct, frozen=True, kw_only=True):
    """The latest action of one kind; earlier ones are in the event log."""

    id: str
    """Kind and object: `database_copy`, `agent_key/node-1`, ..."""
    version: int = 0
    facts: Mapping[str, str] = field(default_factory=dict)
    """Arguments or result; never a secret, nor the digest of one."""
