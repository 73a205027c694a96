"""Closing: what is followed ends with whoever follows it."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

T = TypeVar("T")


async def closing(source: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """Pass on, and close the source at once when nobody listens any more, not when it is collected."""
    try:
        async for item in source:
            yield item
    finally:
        if isinstance(source, AsyncGenerator):
            await source.aclose()
