"""Shared subscriptions: equal subscriptions of clients with equal rights are executed once, as one broadcast.

Only numbered subscriptions can be shared: those with an argument `after` and a number in each item. Requests are equal
when text, operation and variables are, except for the position at which they begin.
"""

import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import orjson
import strawberry
import uuid_utils
from graphql import (
    DocumentNode,
    ExecutionResult,
    FieldNode,
    GraphQLError,
    GraphQLField,
    GraphQLObjectType,
    GraphQLSchema,
    OperationDefinitionNode,
    OperationType,
    VariableNode,
    get_named_type,
)
from graphql.execution import Executor, create_source_event_stream
from graphql.execution.values import VariableValues, get_argument_values, get_variable_values
from msgspec import Struct
from msgspec.structs import replace
from strawberry.utils.await_maybe import await_maybe

from aliquot.api.encoding import json_text
from aliquot.api.graphql.broadcast import Broadcast, Frame, Frames, ReplayMemory, SnapshotSource, Subscriber
from aliquot.api.graphql.documents import Document, Documents
from aliquot.api.graphql.extensions import is_fault, log_fault, masked
from aliquot_schema.errors import AliquotError
from aliquot_schema.graphql.context import Context
from aliquot_schema.ids import REQUEST_PREFIX
from aliquot_schema.requests import Caller
from aliquot_schema.views.live import StreamPosition

NUMBERS: Final = ("event_number", "number")
"""Fields that may number the items."""
AFTER: Final = "after"
"""The argument with the last known number."""

BACK_MAX: Final = 1000
"""Events that a broadcast goes back at most for its first client, because the others wait for it."""
TimeLimit = Callable[[Awaitable[None]], Coroutine[Any, Any, None]]
"""Awaits a sending, with a time limit."""


class OperationRequest(Struct, frozen=True, kw_only=True):
    """An operation as a client sent it."""

    text: str
    variables: dict[str, Any] | None
    operation_name: str | None


class Numbered(Struct, frozen=True, kw_only=True):
    """A request for numbered items."""

    stream: str
    """Field of the subscription."""
    number: str
    """Field that numbers the items."""
    after: int | None
    operation_name: str | None
    """As in the document."""
    key: Hashable
    """Equal for requests that differ only in where they begin."""


def numbered(asked: OperationRequest, tree: DocumentNode, schema: GraphQLSchema) -> Numbered | None:
    """Analyze a valid document; None when it is not a numbered subscription, or invalid."""
    operation = _operation(tree, asked.operation_name)
    root = schema.subscription_type
    if operation is None or root is None:
        return None
    values = get_variable_values(schema, operation.variable_definitions or (), dict(asked.variables or {}))
    node = operation.selection_set.selections[0]
    if isinstance(values, list) or not isinstance(node, FieldNode) or node.directives:
        return None
    field = root.fields[node.name.value]
    number = _number(field)
    if AFTER not in field.args or number is None:
        return None
    asked = replace(asked, operation_name=operation.name.value if operation.name else None)
    return _numbered(asked, node, field, values, number=number)


def _numbered(
    asked: OperationRequest, node: FieldNode, field: GraphQLField, values: VariableValues, *, number: str
) -> Numbered | None:
    try:
        after = get_argument_values(field, node, values).get(AFTER)
    except GraphQLError:
        return None
    # A variable that is used for more than the position is part of the key.
    other = {
        name: value for name, value in (asked.variables or {}).items() if name != _position_variable(node, asked.text)
    }
    values_text = orjson.dumps(other, option=orjson.OPT_SORT_KEYS)
    name = asked.operation_name
    return Numbered(
        stream=node.name.value,
        number=number,
        after=after,
        operation_name=name,
        key=(asked.text, name, values_text),
    )


def _position_variable(node: FieldNode, text: str) -> str | None:
    """The variable with the position, if it is used for nothing else: then it occurs twice in the text."""
    for argument in node.arguments or ():
        if argument.name.value == AFTER and isinstance(argument.value, VariableNode):
            name = argument.value.name.value
            return name if text.count(f"${name}") == 2 else None
    return None


def _operation(tree: DocumentNode, name: str | None) -> OperationDefinitionNode | None:
    found = [
        node
        for node in tree.definitions
        if isinstance(node, OperationDefinitionNode)
        if name is None or (node.name is not None and node.name.value == name)
    ]
    return found[0] if len(found) == 1 and found[0].operation is OperationType.SUBSCRIPTION else None


def _number(field: GraphQLField) -> str | None:
    return next((name for name in NUMBERS if name in _fields(field)), None)


def _fields(field: GraphQLField) -> Mapping[str, GraphQLField]:
    item = get_named_type(field.type)
    return item.fields if isinstance(item, GraphQLObjectType) else {}


class Interrupted(Exception):
    """The stream has ended; `text` is the encoded error."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class SubscriptionSource(Struct, frozen=True, kw_only=True):
    """A subscription, executed with the rights of a group of clients."""

    schema: strawberry.Schema
    document: Document
    asked: OperationRequest
    number: str
    """Field that numbers the items."""
    context: Context

    async def first(self) -> Frame:
        """The current state.

        Raises:
            Interrupted: the subscription failed.
        """
        async with aclosing(self.frames(None)) as frames:
            return await anext(frames)

    async def frames(self, after: int | None) -> Frames:
        """All frames above a number, without end; None: the current state first.

        Raises:
            Interrupted: the subscription failed or has ended.
        """
        try:
            async with aclosing(self._executed(after)) as frames:
                async for frame in frames:
                    yield frame
        except Exception as error:
            located = error if isinstance(error, GraphQLError) else GraphQLError(str(error), original_error=error)
            raise Interrupted(json_text(self._body(None, [located]))) from error

    async def _executed(self, after: int | None) -> Frames:
        executor = self._executor(after)
        stream: Any = await await_maybe(create_source_event_stream(executor))
        if isinstance(stream, ExecutionResult):
            raise (stream.errors or [GraphQLError("nothing to subscribe to")])[0]
        async with aclosing(stream):
            async for payload in stream:
                number = getattr(payload, self.number)
                yield Frame(number, await self._encoded(executor.build_per_event_executor(payload)))

    def _executor(self, after: int | None) -> Executor[Any]:
        kind = self.schema.execution_context_class
        context = _starting_after(self.context, after)
        executor = kind.build(
            self.schema._schema,
            self.document.tree,
            context_value=context,
            raw_variable_values=dict(self.asked.variables or {}),
            operation_name=self.asked.operation_name,
        )
        if isinstance(executor, list):
            raise executor[0]
        return executor

    async def _encoded(self, executor: Executor[Any]) -> str:
        result = await await_maybe(executor.execute_operation(False))
        assert isinstance(result, ExecutionResult)
        return json_text(self._body(result.data, result.errors or []))

    def _body(self, data: Any, errors: list[GraphQLError]) -> dict[str, Any]:
        request_id = self.context.caller.request_id
        for error in filter(is_fault, errors):
            log_fault(error, request_id)
        body = {"data": data, "extensions": {"cost": self.document.costs[self.asked.operation_name]}}
        return body | ({"errors": [masked(error, request_id).formatted for error in errors]} if errors else {})


def shared_context(context: Context, request_id: str) -> Context:
    """A context without anything of a single connection, for all clients with the same rights."""
    return Context(caller=replace(context.caller, request_id=request_id), services=context.services)


class _StartingAfter:
    """A watcher whose numbered streams begin after this number, whatever the request says."""

    def __init__(self, watcher: Any, after: int | None) -> None:
        self._watcher = watcher
        self._after = after

    def __getattr__(self, name: str) -> Callable[..., AsyncIterator[Any]]:
        return partial(self._follow, getattr(self._watcher, name))

    def _follow(self, follow: Callable[..., AsyncIterator[Any]], *asked: object, **more: object) -> AsyncIterator[Any]:
        return follow(*asked, **{**more, AFTER: self._after})


def _starting_after(context: Context, after: int | None) -> Context:
    subscriptions: Any = _StartingAfter(context.services.subscriptions, after)
    return Context(caller=context.caller, services=dataclasses.replace(context.services, subscriptions=subscriptions))


class SharedSubscriptions:
    """All shared subscriptions of this server.

    Args:
        refuses: whether the caller's query rate rejects an operation of this cost.
    """

    def __init__(
        self, schema: strawberry.Schema, *, documents: Documents, refuses: Callable[[Caller, int], bool]
    ) -> None:
        self._schema = schema
        self._documents = documents
        self._refuses = refuses
        self._followed: dict[Hashable, _CountedBroadcast] = {}
        self._memory = ReplayMemory()

    def __len__(self) -> int:
        return len(self._followed)

    def find(self, asked: OperationRequest, context: Context) -> "BroadcastReader | None":
        """The shared subscription for a request; None when it cannot be shared or has to be rejected."""
        document = self._documents.prepare(asked.text, self._schema._schema)
        if document.errors or document.is_ambiguous(asked.operation_name):
            return None
        found = numbered(asked, document.tree, self._schema._schema)
        if found is None:
            return None
        asked = replace(asked, operation_name=found.operation_name)
        try:
            place = context.services.subscriptions.place(found.stream, found.after)
        except AliquotError:
            return None
        if self._refuses(context.caller, document.costs[found.operation_name]):
            return None
        scope = None if place.is_alike else replace(context.caller, request_id="")
        context = shared_context(context, f"{REQUEST_PREFIX}{uuid_utils.uuid7()}")
        source = SubscriptionSource(
            schema=self._schema, document=document, asked=asked, number=found.number, context=context
        )
        return BroadcastReader(self, (found.key, scope), source, place=place)

    def enter(self, key: Hashable, source: SubscriptionSource, *, start: int, snapshot_s: float | None) -> Broadcast:
        """Join a broadcast; the first client starts it."""
        followed = self._followed.get(key)
        if followed is None or followed.broadcast.is_over:
            first = SnapshotSource(source.first, lasts_s=snapshot_s)
            broadcast = Broadcast(source.frames, first=first, start=start, memory=self._memory)
            followed = self._followed[key] = _CountedBroadcast(broadcast)
        followed.count += 1
        return followed.broadcast

    def exit(self, key: Hashable, broadcast: Broadcast) -> None:
        """Leave a broadcast; the last client ends it."""
        followed = self._followed.get(key)
        if followed is None or followed.broadcast is not broadcast:
            return
        followed.count -= 1
        if not followed.count:
            del self._followed[key]
            broadcast.close()


class BroadcastReader:
    """One client's position in a broadcast."""

    def __init__(
        self, sharing: SharedSubscriptions, key: Hashable, source: SubscriptionSource, *, place: StreamPosition
    ) -> None:
        self._sharing = sharing
        self._key = key
        self._source = source
        self._known = place.known
        self._snapshot_s = place.snapshot_s
        self._start = place.newest if place.known is None else max(place.known, place.newest - BACK_MAX)

    async def run(self, send: Callable[[str], Coroutine[Any, Any, None]], *, in_time: TimeLimit) -> None:
        """Send every frame until the stream ends, which is sent as an error.

        Args:
            send: sends the text of a frame.
            in_time: awaits a sending, with a time limit.
        """
        subscriber = Subscriber(position=self._known or 0, send=send)
        with self._broadcast() as broadcast:
            try:
                if self._known is None:
                    await in_time(subscriber.deliver(await broadcast.snapshot()))
                while not broadcast.is_over:
                    async with aclosing(broadcast.since(subscriber.position)) as frames:
                        async for frame in frames:
                            await in_time(subscriber.deliver(frame))
                    broadcast.join(subscriber)
                    await subscriber.detached()
                    await in_time(subscriber.finish())
                _raise(broadcast.failure)
            except Interrupted as end:
                await in_time(send(end.text))
            finally:
                broadcast.leave(subscriber)
                subscriber.drop()

    async def texts(self) -> AsyncGenerator[str, None]:
        """Texts of the frames, for clients that pull them; the last may be an error."""
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
class _CountedBroadcast:
    broadcast: Broadcast
    count: int = 0
