"""Board relay: the leader publishes its forecast board through the shared database, and followers take it over.

The body is compressed lines of JSON, each with some of the board: encoding one never keeps the event loop waiting.
"""

import asyncio
import logging
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from aliquot.service.foresight.ports import BoardRelay, PublishedBoard
from aliquot.service.ports import Clock, StoreUnavailable
from aliquot.service.state.forecast_board import BoardContent, ForecastBoard
from aliquot_schema.async_tasks import raise_if_canceled

EVERY_S: Final = 5.0
LINE_MAX: Final = 100
"""Forecasts in one line."""
_FAST: Final = 1
"""zlib level."""
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(BoardContent)

Item = TypeVar("Item")

log: Final = logging.getLogger("aliquot.forecasts")


class BoardPublisher:
    """The leader's side."""

    def __init__(self, board: ForecastBoard, *, relay: BoardRelay, epoch: int) -> None:
        self._board = board
        self._relay = relay
        self._epoch = epoch
        self._number = 0
        self._published = -1

    async def publish(self) -> None:
        """Publish the board if it has changed since the last call.

        Raises:
            StoreUnavailable: a later call publishes it.
        """
        if self._board.changes == self._published:
            return
        changes, content = self._board.changes, self._board.content()
        body = await asyncio.to_thread(packed, content)
        self._number += 1
        await self._relay.put(PublishedBoard(epoch=self._epoch, number=self._number, body=body))
        self._published = changes


class BoardReceiver:
    """A follower's side."""

    def __init__(self, board: ForecastBoard, *, relay: BoardRelay, clock: Clock) -> None:
        self._board = board
        self._relay = relay
        self._clock = clock
        self._known = (0, 0)

    async def run_once(self) -> None:
        """Take over what the leader has published. An unavailable store is tried again by the next call."""
        self._board.tick(self._clock.now_us())
        try:
            found = await self._relay.newest(self._known)
        except StoreUnavailable:
            return
        if found is not None:
            content = await asyncio.to_thread(unpacked, found.body)
            raise_if_canceled()
            self._board.replace(content)
            self._known = (found.epoch, found.number)


def packed(content: BoardContent) -> bytes:
    """Encode a board."""
    return zlib.compress(b"\n".join(_ENCODER.encode(part) for part in _parts(content)), _FAST)


def unpacked(body: bytes) -> BoardContent:
    """The inverse of `packed`."""
    whole, *parts = [_DECODER.decode(line) for line in zlib.decompress(body).split(b"\n")]
    now, first = dict(whole.now), dict(whole.first)
    for part in parts:
        now.update(part.now)
        first.update(part.first)
    return replace(whole, now=now, first=first)


def _parts(content: BoardContent) -> Iterator[BoardContent]:
    yield replace(content, now={}, first={})
    for now in _slices(content.now.items()):
        yield BoardContent(now=dict(now))
    for first in _slices(content.first.items()):
        yield BoardContent(first=dict(first))


def _slices(items: Iterable[Item]) -> Iterator[list[Item]]:
    coming = iter(items)
    while part := list(islice(coming, LINE_MAX)):
        yield part
