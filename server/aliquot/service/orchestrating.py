"""Orchestrating: the allocator stopped and started, for all servers, until somebody says otherwise."""

from dataclasses import replace
from typing import Final

from aliquot.core.field_checks import label
from aliquot.service.draft import Draft
from aliquot.service.journal import Journal
from aliquot.service.office import Office
from aliquot.service.ports import Clock
from aliquot_schema.ids import UserId
from aliquot_schema.orchestration import OrchestratorState
from aliquot_schema.requests import Caller

BY_SETTING: Final = UserId("system:settings")
"""Stops it where a setting says that a new cluster begins stopped."""


class Orchestrating(Office):
    """Stopped, nothing new is placed and nobody is preempted; sessions that run, the reaper and submissions go on."""

    async def stop_orchestrator(self, caller: Caller, note: str | None) -> int:
        """Stop it, and return the revision; whoever stopped it first stays the one who did.

        Raises:
            Forbidden: the caller is no operator.
            InvalidRequest: the note is too long.
        """
        return await self._move(caller, OrchestratorState.STOPPED, note)

    async def start_orchestrator(self, caller: Caller, note: str | None) -> int:
        """Start it, and return the revision; as `stop_orchestrator`."""
        return await self._move(caller, OrchestratorState.RUNNING, note)

    async def _move(self, caller: Caller, to: OrchestratorState, note: str | None) -> int:
        words = label(note, field="note")

        def change(draft: Draft) -> None:
            move(draft, to, by=caller.user, now_us=self._clock.now_us(), note=words)

        await self._act(caller, change)
        return self._state.revision


def move(draft: Draft, to: OrchestratorState, *, by: UserId, now_us: int, note: str | None = None) -> None:
    """Write that it is stopped or runs; nothing when it already is so."""
    known = draft.orchestration()
    if known.state is to:
        return
    draft.put(replace(known, state=to, changed_by=by, changed_us=now_us, note=note), _WORDS[to])


async def begin_stopped(journal: Journal, clock: Clock) -> bool:
    """Stop a cluster that nobody has ever stopped or started; what somebody said before stands.

    Returns:
        Whether it is stopped now.
    """

    def change(draft: Draft) -> bool:
        known = draft.orchestration()
        if known.version:
            return known.state is OrchestratorState.STOPPED
        move(draft, OrchestratorState.STOPPED, by=BY_SETTING, now_us=clock.now_us())
        return True

    return await journal.transact(change, actor=BY_SETTING)


_WORDS: Final = {OrchestratorState.STOPPED: "stopped", OrchestratorState.RUNNING: "started"}
