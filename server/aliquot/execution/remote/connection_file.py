"""Connection file: marks an agent as connected to its server, for health checks on its machine."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from aliquot.execution.agent.agent_folder import is_taken

MARK: Final = "connected"
"""File in the agent's folder; touched every `TOUCH_S` while the agent is connected and its event loop runs."""
TOUCH_S: Final = 5.0
FRESH_S: Final = 20.0


@asynccontextmanager
async def marked(folder: Path) -> AsyncIterator[None]:
    """Touch the mark periodically and remove it afterwards. Disk errors are ignored."""
    keeping = asyncio.create_task(_keep(folder / MARK))
    try:
        yield
    finally:
        keeping.cancel()
        with suppress(OSError):
            (folder / MARK).unlink(missing_ok=True)


def connections(data_folder: Path) -> dict[str, bool]:
    """Agent id -> whether it is connected to its server; of all agents that run in this data folder."""
    folders = sorted((data_folder / "agents").glob("*"))
    return {folder.name: _is_fresh(folder / MARK) for folder in folders if is_taken(folder)}


async def _keep(mark: Path) -> None:
    while True:
        _touch(mark)  # not in a thread: a late call would create the mark again after its removal
        await asyncio.sleep(TOUCH_S)


def _touch(mark: Path) -> None:
    with suppress(OSError):
        mark.touch()


def _is_fresh(mark: Path) -> bool:
    try:
        return time.time() - mark.stat().st_mtime < FRESH_S
    except OSError:
        return False
