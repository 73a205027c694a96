"""A file that says of an agent that it is connected: what health checks of its own machine look at."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from aliquot.execution.agent.agent_folder import is_taken

MARK: Final = "connected"
"""In the agent's folder; touched for as long as it is connected and its loop turns."""
TOUCH_S: Final = 5.0
FRESH_S: Final = 20.0


@asynccontextmanager
async def marked(folder: Path) -> AsyncIterator[None]:
    """Keep the mark fresh; it is gone afterwards. A disk that is full costs the mark alone."""
    keeping = asyncio.create_task(_keep(folder / MARK))
    try:
        yield
    finally:
        keeping.cancel()
        with suppress(OSError):
            (folder / MARK).unlink(missing_ok=True)


def connections(data_folder: Path) -> dict[str, bool]:
    """Whether each agent that runs in this data folder is connected to its server, by its id."""
    folders = sorted((data_folder / "agents").glob("*"))
    return {folder.name: _is_fresh(folder / MARK) for folder in folders if is_taken(folder)}


async def _keep(mark: Path) -> None:
    while True:
        _touch(mark)  # in no thread: one that is late would make a mark anew that was removed
        await asyncio.sleep(TOUCH_S)


def _touch(mark: Path) -> None:
    with suppress(OSError):
        mark.touch()


def _is_fresh(mark: Path) -> bool:
    try:
        return time.time() - mark.stat().st_mtime < FRESH_S
    except OSError:
        return False
