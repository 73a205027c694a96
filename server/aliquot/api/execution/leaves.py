"""Leaves: how a scalar or an enumeration is read, fast where the value is what it usually is.

An expression is written for a variable. Where the value is of exactly the usual class it stays as it is, or is looked
up; everything else goes through the type's own coercion, and what that refuses is a surprise.
"""

from collections.abc import Callable
from datetime import datetime
from enum import Enum
from functools import lru_cache
from typing import Any, Final

from graphql import GraphQLBoolean, GraphQLEnumType, GraphQLFloat, GraphQLID, GraphQLInt, GraphQLLeafType, GraphQLString
from strawberry.schema.schema_converter import CustomGraphQLEnumType

from aliquot.api.execution.function_text import FunctionText
from aliquot.api.execution.surprises import Surprise, is_odd
from aliquot_schema.graphql.scalars import format_priority, format_time
from aliquot_schema.sessions import Priority

KEPT: Final = 4096
"""Texts of moments that are kept; the same ones come again and again."""

_UNCHANGED: Final[dict[Any, str]] = {
    GraphQLString.coerce_output_value: "type({0}) is str",
    GraphQLID.coerce_output_value: "type({0}) is str",
    GraphQLBoolean.coerce_output_value: "type({0}) is bool",
    GraphQLInt.coerce_output_value: "type({0}) is int and -2147483648 <= {0} <= 2147483647",
    GraphQLFloat.coerce_output_value: "type({0}) is float and {0} - {0} == 0.0",
    int: "type({0}) is int",
}
"""By coercion: when it gives a value back as it is."""

_WRITTEN: Final[dict[Any, tuple[type, Callable[[Any], str]]]] = {
    format_time: (datetime, lru_cache(KEPT)(format_time)),
    format_priority: (Priority, lru_cache(KEPT)(format_priority)),
}
"""By coercion: the class that it is for, and the same function with a memory."""


def leaf_expression(leaf: GraphQLLeafType, variable: str, *, is_required: bool, text: FunctionText) -> str:
    """Write the expression that completes a variable."""
    coerced = f"{text.constant(_careful(leaf.coerce_output_value))}({variable})"
    unchanged = _UNCHANGED.get(leaf.coerce_output_value)
    if unchanged is not None:
        condition = unchanged.format(variable)
        return f"({variable} if {condition}{'' if is_required else f' or {variable} is None'} else {coerced})"
    usual = _usual(leaf, variable, text)
    whole = coerced if usual is None else f"{usual} else {coerced}"
    return f"({whole})" if is_required else f"(None if {variable} is None else {whole})"


def _usual(leaf: GraphQLLeafType, variable: str, text: FunctionText) -> str | None:
    """What to do with a value of the usual class, like `table[v] if v.__class__ is X`."""
    if isinstance(leaf, CustomGraphQLEnumType):
        members: list[Enum] = list(leaf.wrapped_cls)
        names = {member: leaf.coerce_output_value(member) for member in members}
        return f"{text.constant(names)}[{variable}] if type({variable}) is {text.constant(leaf.wrapped_cls)}"
    if isinstance(leaf, GraphQLEnumType) or leaf.coerce_output_value not in _WRITTEN:
        return None
    usual, write = _WRITTEN[leaf.coerce_output_value]
    return f"{text.constant(write)}({variable}) if type({variable}) is {text.constant(usual)}"


def _careful(coerce: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def careful(value: Any) -> Any:
        if is_odd(value):
            raise Surprise
        coerced = coerce(value)
        if is_odd(coerced):
            raise Surprise
        return coerced

    return careful
