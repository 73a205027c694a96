"""Answers of mutations: what was done, or the expected error that stood against it, as a member of a union."""

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any, Final, TypeVar, Union

import strawberry

from aliquot_schema.errors import AliquotError
from aliquot_schema.graphql import errors

T = TypeVar("T")

ALWAYS: Final[tuple[type[errors.Error], ...]] = (
    errors.InvalidRequest,
    errors.LimitExceeded,
    errors.Unauthenticated,
    errors.Forbidden,
    errors.Unavailable,
)
"""What can stand against any change."""
ON_CREATE: Final[tuple[type[errors.Error], ...]] = (
    *ALWAYS,
    errors.InvalidAmount,
    errors.NotMultipleOfQuantum,
    errors.UnsupportedField,
    errors.UnknownSlot,
    errors.ImpossibleRequest,
    errors.QuotaExceeded,
    errors.QueueFull,
    errors.RateLimited,
    errors.UnknownDependency,
    errors.IdempotencyMismatch,
    errors.AllocationRefused,
    errors.InsufficientResource,
    errors.FractionalResourceFragmented,
    errors.InvalidResourceCombination,
    errors.UnsupportedResource,
)
"""What can stand against a new session, or the preview of one."""


def union(name: str, *members: type) -> Any:
    """The type of an answer."""
    description = "Success, or what stood against it."
    return Annotated[Union.__getitem__(members), strawberry.union(name, description=description)]


async def answer(change: Coroutine[Any, Any, T], members: tuple[type[errors.Error], ...]) -> T | errors.Error:
    """What a change comes to; an error that is no member leaves as an entry of `errors`, with its code."""
    try:
        return await _finish(change)
    except AliquotError as error:
        value = errors.error_value(error)
        if not isinstance(value, members):
            raise
        return value


_unfinished: Final[set[asyncio.Task[Any]]] = set()


async def _finish(change: Coroutine[Any, Any, T]) -> T:
    """Carry a change through even if whoever asked for it goes away in between: half a commit helps nobody."""
    task = asyncio.ensure_future(change)
    _unfinished.add(task)
    task.add_done_callback(_let_go)
    return await asyncio.shield(task)


def _let_go(task: asyncio.Task[Any]) -> None:
    _unfinished.discard(task)
    if not task.cancelled():
        task.exception()  # asked for, so that asyncio does not report it when nobody waits any more
