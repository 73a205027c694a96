"""Agents' keys: what commands did to them is told to the log as long as the server runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aliquot.clock import SystemClock
from aliquot.composition.running import Running
from aliquot.execution.remote.keys import KEY_FILE, KeyFile
from aliquot.service.auditing.agent_keys import KeyTeller
from aliquot.settings import Settings


@asynccontextmanager
async def agent_keys_told(running: Running, settings: Settings) -> AsyncIterator[None]:
    """From here on, beginning with what was done while no server ran."""
    keys = KeyFile(settings.data_folder / "server" / KEY_FILE)
    teller = KeyTeller(keys, journal=running.cases.journal, clock=SystemClock())
    loop = asyncio.create_task(teller.run(), name="agent keys")
    try:
        yield
    finally:
        loop.cancel()
        with suppress(asyncio.CancelledError):
            await loop
