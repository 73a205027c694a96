"""Sharing: the broadcasts there are, and how one follows them."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Hashable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import strawberry
import uuid_utils

from aliquot.api.documents import Documents
from aliquot.api.sharing.broadcasts import Beginning, Broadcast
from aliquot.api.sharing.requests import Asked, numbered
from aliquot.api.sharing.room import Room
from aliquot.api.sharing.sources import Interrupted, Source, shared_context
from aliquot.api.sharing.subscribers import Subscriber
from aliquot_schema.errors import AliquotError
from aliquot_schema.graphql.context import Context
from aliquot_schema.ids import REQUEST_PREFIX
from aliquot_schema.live_views import Place
from aliquot_schema.requests import Caller

BACK_MAX: Final = 1000
"""How many events back a broadcast begins at most, for whoever asks first; the others would wait for it."""
Patience = Callable[[Awaitable[None]], Coroutine[Any, Any, None]]
"""Awaits something for somebody who may take too long."""


def _nobody(_caller: Caller, _cost: int) -> bool:
    return False


class Sharing:
    """Everything that is followed by anybody on this server.

    Args:
        refuses: whether somebody has asked for so much already that a request of this cost is refused.
    """

    def __init__(
        self, schema: strawberry.Schema, *, documents: Documents, refuses: Callable[[Caller, int], bool] = _nobody
    ) -> None:
        self._schema = schema
        self._documents = documents
        self._refuses = refuses
        self._followed: dict[Hashable, _Followed] = {}
        self._room = Room()

    def __len__(self) -> int:
        return len(self._followed)

    def find(self, asked: Asked, context: Context) -> "Following | None":
        """What a client is to follow; None when what it asks for is not numbered, or has to be refused."""
        document = self._documents.prepare(asked.text, self._schema._schema)
        if document.errors:
            return None
        found = numbered(asked, document.tree, self._schema._schema)
        if found is None:
            return None
        asked = replace(asked, operation_name=found.operation_name)
        try:
            place = context.watcher.place(found.stream, found.after)
        except AliquotError:
            return None
        if self._refuses(context.caller, document.costs[found.operation_name]):
            return None
        scope = None if place.is_alike else replace(context.caller, request_id="")
        context = shared_context(context, f"{REQUEST_PREFIX}{uuid_utils.uuid7()}")
        source = Source(schema=self._schema, document=document, asked=asked, number=found.number, context=context)
        return Following(self, (found.key, scope), source, place=place)

    def enter(self, key: Hashable, source: Source, *, start: int, snapshot_s: float | None) -> Broadcast:
        """Follow a broadcast; it is begun for the first."""
        followed = self._followed.get(key)
        if followed is None or followed.broadcast.is_over:
            first = Beginning(source.first, lasts_s=snapshot_s)
            broadcast = Broadcast(source.frames, first=first, start=start, room=self._room)
            followed = self._followed[key] = _Followed(broadcast)
        followed.count += 1
        return followed.broadcast

    def exit(self, key: Hashable, broadcast: Broadcast) -> None:
        """Follow it no longer; it ends with the last."""
        followed = self._followed.get(key)
        if followed is None or followed.broadcast is not broadcast:
            return
        followed.count -= 1
        if not followed.count:
            del self._followed[key]
            broadcast.close()


class Following:
    """One client's way through a broadcast."""

    def __init__(self, sharing: Sharing, key: Hashable, source: Source, *, place: Place) -> None:
        self._sharing = sharing
        self._key = key
        self._source = source
        self._known = place.known
        self._snapshot_s = place.snapshot_s
        self._start = place.newest if place.known is None else max(place.known, place.newest - BACK_MAX)

    async def run(self, send: Callable[[str], Coroutine[Any, Any, None]], *, patiently: Patience) -> None:
        """Send every frame until there are no more, which is told like an error.

        Args:
            send: sends the text of a frame.
            patiently: awaits a sending, and gives up when it takes too long.
        """
        subscriber = Subscriber(position=self._known or 0, send=send)
        with self._broadcast() as broadcast:
            try:
                if self._known is None:
                    await patiently(subscriber.deliver(await broadcast.snapshot()))
                while not broadcast.is_over:
                    async with aclosing(broadcast.since(subscriber.position)) as frames:
                        async for frame in frames:
                            await patiently(subscriber.deliver(frame))
                    broadcast.join(subscriber)
                    await subscriber.left_behind()
                    await patiently(subscriber.finish())
                _raise(broadcast.failure)
            except Interrupted as end:
                await patiently(send(end.text))
            finally:
                broadcast.leave(subscriber)
                subscriber.drop()

    async def texts(self) -> AsyncGenerator[str, None]:
        """The texts of the frames, for whoever takes them one by one; the last may be that of an error."""
        position = self._known or 0
        with self._broadcast() as broadcast:
            try:
                if self._known is None:
                    position, text = await broadcast.snapshot()
                    yield text
                while not broadcast.is_over:
                    async with aclosing(broadcast.since(position)) as frames:
                        async for frame in frames:
                            position = frame.number
                            yield frame.text
                    await broadcast.news(position)
                _raise(broadcast.failure)
            except Interrupted as end:
                yield end.text

    @contextmanager
    def _broadcast(self) -> Iterator[Broadcast]:
        broadcast = self._sharing.enter(self._key, self._source, start=self._start, snapshot_s=self._snapshot_s)
        try:
            yield broadcast
        finally:
            self._sharing.exit(self._key, broadcast)


def _raise(failure: Exception | None) -> None:
    if failure is not None:
        raise failure


@dataclass(slots=True)
class _Followed:
    broadcast: Broadcast
    count: int = 0
