"""Pieces of an output as bytes of one stream: each says where it begins, so that holes and empty ones are told, too."""

from collections.abc import AsyncIterator
from struct import Struct
from typing import Final

from aliquot_schema.launching import LogChunk

HEAD: Final = Struct(">QI?")
"""The offset, how many bytes follow, and whether nothing comes after them."""


def frame(chunk: LogChunk) -> bytes:
    """One piece."""
    return HEAD.pack(chunk.offset, len(chunk.data), chunk.at_end) + chunk.data


async def unframed(stream: AsyncIterator[bytes]) -> AsyncIterator[LogChunk]:
    """The pieces again, however the stream was cut; each as soon as all of it has come."""
    held = bytearray()
    async for data in stream:
        held += data
        while len(held) >= HEAD.size:
            offset, length, at_end = HEAD.unpack_from(held)
            end = HEAD.size + length
            if len(held) < end:
                break
            yield LogChunk(offset=offset, data=bytes(held[HEAD.size : end]), at_end=at_end)
            del held[:end]
