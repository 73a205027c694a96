"""Surprises: values that a compiled function leaves to graphql-core, which knows what error or null they come to."""

from typing import Any, Final

from graphql import Undefined
from strawberry.execution import optimized_is_awaitable


class Surprise(Exception):
    """The value is not what an attribute read usually gives; raised within compiled functions alone."""


def surprised(_value: object = None) -> Any:
    """Give a value up, where an expression is needed."""
    raise Surprise


_plain: Final[set[type]] = set()


def admit(value: object) -> None:
    """Give up what graphql-core does not take for an object: nothing, exceptions and awaitables."""
    if is_odd(value):
        raise Surprise
    _plain.add(type(value))


def is_odd(value: object) -> bool:
    """Whether graphql-core would not complete this as a value of its own."""
    return value is None or value is Undefined or isinstance(value, Exception) or optimized_is_awaitable(value)


PLAIN: Final = _plain
"""The classes that were admitted."""
