"""Clearing: secrets of people who were disabled long ago are deleted, for nobody is left who could."""

import logging
from typing import Final

from aliquot.service.leaps import Leaps
from aliquot.service.ports import Clock
from aliquot.service.secrets.vault import Vault
from aliquot.service.state import State
from aliquot_schema.errors import AliquotError

log: Final = logging.getLogger("aliquot.secrets")

KEPT_US: Final = 30 * 86_400 * 1_000_000
"""From when a user was disabled, or changed since: who is enabled again by then has them still."""
EVERY_S: Final = 3600.0


class Clearing:
    """Of the server that leads."""

    def __init__(self, vault: Vault, *, state: State, clock: Clock, leaps: Leaps) -> None:
        self._vault = vault
        self._state = state
        self._clock = clock
        self._leaps = leaps

    async def run(self) -> None:
        """Look again and again. What fails is told, and tried again the next time."""
        while True:
            await self._clock.sleep(EVERY_S)
            if not self._leaps.is_steady():
                continue
            try:
                await self.run_once()
            except AliquotError as error:
                log.warning("secrets of disabled users cannot be deleted now: %s", error.message)
            except Exception:
                log.exception("secrets of disabled users cannot be deleted now")

    async def run_once(self) -> int:
        """Returns how many were deleted.

        Raises:
            Unavailable: the database fails now.
        """
        if self._vault.store is None:
            return 0
        before_us = self._clock.wall_us() - KEPT_US
        users = list(self._state.people.users.values())
        gone = [user.id for user in users if user.disabled and user.changed_us <= before_us]
        return sum([await self._vault.clear(name) for name in gone])
