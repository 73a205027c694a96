"""Agents' keys in the log: commands change them in a file beside the server, which tells of it as soon as it runs."""

import asyncio
import logging
from typing import Final

from aliquot.service.auditing.key_changes import KeyChange, KeyChanges
from aliquot.service.draft import Draft
from aliquot.service.journal import Journal
from aliquot.service.ports import Clock, StoreUnavailable
from aliquot_schema.actions import Action
from aliquot_schema.errors import AliquotError
from aliquot_schema.ids import RequestId

log: Final = logging.getLogger("aliquot.agents")

EVERY_S: Final = 2.0


class KeyTeller:
    """Tells the log of each change once, on any server: each has a file of its own."""

    def __init__(self, changes: KeyChanges, *, journal: Journal, clock: Clock) -> None:
        self._changes = changes
        self._journal = journal
        self._clock = clock

    async def run(self) -> None:
        """Look again and again. What fails is told, and tried again the next time."""
        while True:
            try:
                await self.run_once()
            except (AliquotError, StoreUnavailable, OSError, ValueError) as error:
                log.warning("changes of agents' keys cannot be told to the log now: %s", error)
            await self._clock.sleep(EVERY_S)

    async def run_once(self) -> int:
        """Returns how many changes the log has now that it had not before."""
        changes = await asyncio.to_thread(self._changes.untold)
        for change in changes:
            await self._tell(change)
            # One by one: that it was told is seen of an agent's last change alone.
            await asyncio.to_thread(self._changes.told, {change.id})
        return len(changes)

    async def _tell(self, change: KeyChange) -> None:
        def tell(draft: Draft) -> None:
            id_ = f"agent_key/{change.agent_id}"
            known = draft.action(id_)
            if known is not None and known.facts.get("request") == change.id:
                return  # it was told, and the server ended before the file said so
            facts = {"state": change.what, "at_us": str(change.at_us), "request": change.id}
            draft.put(Action(id=id_, facts=facts), f"agent_key_{change.what}")

        await self._journal.transact(tell, actor=change.by, request_id=RequestId(change.id))
