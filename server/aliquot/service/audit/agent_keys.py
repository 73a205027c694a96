"""Agent key audit: copies changes of agents' keys from a file into the event log.

Command-line tools change keys in a file beside the server, also while it is down. The server records them when it runs.
"""

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import Final, Protocol

from aliquot.service.ports import Clock, StoreUnavailable
from aliquot.service.state.journal import Journal
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.cluster.agents import KeyChange
from aliquot_schema.errors import AliquotError
from aliquot_schema.ids import RequestId
from aliquot_schema.orchestration import Action

log: Final = logging.getLogger("aliquot.agents")
EVERY_S: Final = 2.0


class KeyChanges(Protocol):
    """Changes that the event log does not have yet. Both methods may block and raise OSError or ValueError."""

    def unrecorded(self) -> Sequence[KeyChange]:
        """Changes in the order in which they were made."""

    def mark_recorded(self, ids: Collection[str]) -> None:
        """The event log has these changes."""


class KeyChangeRecorder:
    """Records each change once. Every server does this for its own file."""

    def __init__(self, changes: KeyChanges, *, journal: Journal, clock: Clock) -> None:
        self._changes = changes
        self._journal = journal
        self._clock = clock

    async def run(self) -> None:
        """Record changes until canceled. Failures are logged and retried."""
        while True:
            try:
                await self.run_once()
            except (AliquotError, StoreUnavailable, OSError, ValueError) as error:
                log.warning("changes of agent keys cannot be recorded now; next attempt in %g s: %s", EVERY_S, error)
            await self._clock.sleep(EVERY_S)

    async def run_once(self) -> int:
        """Record new changes; returns how many."""
        changes = await asyncio.to_thread(self._changes.unrecorded)
        for change in changes:
            await self._record(change)
            # One by one: the log keeps only the last recorded change of each agent.
            await asyncio.to_thread(self._changes.mark_recorded, {change.id})
        return len(changes)

    async def _record(self, change: KeyChange) -> None:
        def record(draft: UnitOfWork) -> None:
            id_ = f"agent_key/{change.agent_id}"
            known = draft.action(id_)
            if known is not None and known.facts.get("request") == change.id:
                return  # recorded, and the server ended before the file was updated
            facts = {"state": change.what, "at_us": str(change.at_us), "request": change.id}
            draft.put(Action(id=id_, facts=facts), f"agent_key_{change.what}")

        await self._journal.transact(record, actor=change.by, request_id=RequestId(change.id))
