"""The outputs of several ranks as one stream, and output as far as there is any."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final, TypeVar

T = TypeVar("T")

QUIET_S: Final = 1.0
"""Output that was there already comes at once; after so long without any there is no more for now."""
FIRST_S: Final = 15.0


async def merged(streams: Sequence[AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
    """What any of the streams gives, as it comes, until all have ended.

    Raises:
        Exception: what one of them raises.
    """
    arrived: asyncio.Queue[T | Exception | None] = asyncio.Queue(maxsize=len(streams))

    async def pump(stream: AsyncGenerator[T, None]) -> None:
        try:
            async with aclosing(stream):
                async for item in stream:
                    await arrived.put(item)
        except Exception as error:
            await arrived.put(error)
        else:
            await arrived.put(None)

    pumps = [asyncio.create_task(pump(stream)) for stream in streams]
    left = len(streams)
    try:
        while left:
            item = await arrived.get()
            if isinstance(item, Exception):
                raise item
            if item is None:
                left -= 1
            else:
                yield item
    finally:
        for task in pumps:
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


async def so_far(stream: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """What a stream that is followed gives until it is quiet."""
    patience_s = FIRST_S
    async with aclosing(stream):
        while True:
            try:
                async with asyncio.timeout(patience_s):
                    item = await anext(stream, None)
            except TimeoutError:
                return
            if item is None:
                return
            patience_s = QUIET_S
            yield item
