"""The end of a process that the main job has started."""

import asyncio


async def ended(process: asyncio.subprocess.Process, *, patience_s: float) -> int:
    """Wait for its end, end it by force when patience has one, and return its exit code (negative: the signal)."""
    try:
        async with asyncio.timeout(patience_s):
            return await process.wait()
    except TimeoutError:
        process.kill()
        return await process.wait()
