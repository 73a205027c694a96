"""Sources: a numbered subscription, executed event by event and encoded."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import strawberry
from graphql import ExecutionResult, GraphQLError
from graphql.execution import Executor, create_source_event_stream
from strawberry.utils.await_maybe import await_maybe

from aliquot.api.documents import Document
from aliquot.api.encoding import json_text
from aliquot.api.faults import is_fault, log_fault, seen
from aliquot.api.sharing.broadcasts import Frames
from aliquot.api.sharing.requests import AFTER, Asked
from aliquot.api.sharing.subscribers import Frame
from aliquot_schema.graphql.context import Context


class Interrupted(Exception):
    """There is no more; `text` says why, encoded."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What was asked for, executed for somebody with these rights."""

    schema: strawberry.Schema
    document: Document
    asked: Asked
    number: str
    """The field by which items are numbered."""
    context: Context

    async def first(self) -> Frame:
        """How everything stands.

        Raises:
            Interrupted: it could not be subscribed to.
        """
        async with aclosing(self.frames(None)) as frames:
            return await anext(frames)

    async def frames(self, after: int | None) -> Frames:
        """Everything above a number, for ever; None: first how everything stands.

        Raises:
            Interrupted: it could not be subscribed to, or not for longer.
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
        context = _begun(self.context, after)
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
        return body | ({"errors": [seen(error, request_id).formatted for error in errors]} if errors else {})


def shared_context(context: Context, request_id: str) -> Context:
    """A context that has nothing of one connection: that of everybody with the same rights."""
    return _copy(context, caller=replace(context.caller, request_id=request_id))


class _Begun:
    """A watcher whose numbered streams begin after this number, whatever is asked for."""

    def __init__(self, watcher: Any, after: int | None) -> None:
        self._watcher = watcher
        self._after = after

    def __getattr__(self, name: str) -> Callable[..., AsyncIterator[Any]]:
        return partial(self._follow, getattr(self._watcher, name))

    def _follow(self, follow: Callable[..., AsyncIterator[Any]], *asked: object, **more: object) -> AsyncIterator[Any]:
        return follow(*asked, **{**more, AFTER: self._after})


def _begun(context: Context, after: int | None) -> Context:
    return _copy(context, watcher=_Begun(context.watcher, after))


def _copy(context: Context, **changes: Any) -> Context:
    return Context(**{field.name: getattr(context, field.name) for field in fields(Context)} | changes)
