"""A file that says of an agent that it is connected: what health checks of its own machine look at."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

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
    """Whether each agent that lives in this data folder is connected, by its id."""
    return {folder.name: _is_fresh(folder / MARK) for folder in sorted((data_folder / "agents").glob("*"))}


async def _keep(mark: Path) -> None:
    while True:
        with suppress(OSError):
            await asyncio.to_thread(mark.touch)
        await asyncio.sleep(TOUCH_S)


def _is_fresh(mark: Path) -> bool:
    try:
        return time.time() - mark.stat().st_mtime < FRESH_S
    except OSError:
        return False
