"""Selections: which attributes a selection reads, as graphql-core would collect them."""

from collections.abc import Iterator
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any, Final

from graphql import GraphQLObjectType, GraphQLOutputType
from graphql.execution import Executor
from graphql.execution.collect_fields import FieldDetails, collect_subfields
from strawberry.types.field import StrawberryField

CONDITIONS: Final = frozenset({"skip", "include"})


class Uncompilable(Exception):
    """A selection has something that is no attribute read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One entry of an answer: a fixed text, or an attribute of the object."""

    key: str
    attribute: str | None
    """None: the name of the object's type."""
    type: GraphQLOutputType | None
    details: list[FieldDetails]


def reads(executor: Executor[Any], parent: GraphQLObjectType, details: list[FieldDetails]) -> Iterator[Read]:
    """What is read of an object, in the order of the answer. The executor's variables decide @skip and @include.

    Raises:
        Uncompilable: a field has a resolver, arguments, or a directive that is not known here.
    """
    collected = collect_subfields(
        executor.schema,
        executor.fragments,
        executor.variable_values,
        executor.operation,
        parent,
        details,
        executor.hide_suggestions,
    )
    if collected.new_defer_usages:
        raise Uncompilable
    for key, fields in collected.grouped_field_set.items():
        if not all(_is_plain(field) for field in fields):
            raise Uncompilable
        yield _read(executor, parent, key, fields)


def _is_plain(field: FieldDetails) -> bool:
    directives = {directive.name.value for directive in field.node.directives or ()}
    return field.defer_usage is None and field.fragment_variable_values is None and directives <= CONDITIONS


def _read(executor: Executor[Any], parent: GraphQLObjectType, key: str, details: list[FieldDetails]) -> Read:
    name = details[0].node.name.value
    if name == "__typename":
        return Read(key=key, attribute=None, type=None, details=details)
    field = executor.schema.get_field(parent, name)
    definition = field.extensions.get("strawberry-definition") if field is not None else None
    if field is None or field.args or not getattr(field.resolve, "_is_default", False):
        raise Uncompilable
    if not isinstance(definition, StrawberryField) or not _is_attribute(definition):
        raise Uncompilable
    return Read(key=key, attribute=definition.python_name, type=field.type, details=details)


def _is_attribute(definition: StrawberryField) -> bool:
    return (
        definition.is_basic_field
        and definition.default_resolver is getattr
        and type(definition).get_result is StrawberryField.get_result
        and definition.python_name.isidentifier()
        and not iskeyword(definition.python_name)
    )
