"""Requests for what is numbered: which subscriptions can be shared, and who shares which."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
from graphql import (
    DocumentNode,
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
from graphql.execution.values import VariableValues, get_argument_values, get_variable_values

NUMBERS: Final = ("event_number", "number")
"""The fields by which items may be numbered."""
AFTER: Final = "after"
"""The argument that says which number is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a client asked for."""

    text: str
    variables: Mapping[str, Any] | None
    operation_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """A request for items that are numbered."""

    stream: str
    """The subscription."""
    number: str
    """By which field its items are numbered."""
    after: int | None
    operation_name: str | None
    """As it is in the document."""
    key: Hashable
    """Equal for those who ask for the same, but for where they begin."""


def numbered(asked: Asked, tree: DocumentNode, schema: GraphQLSchema) -> Numbered | None:
    """Look at a valid document; None when it asks for something else, or wrongly."""
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
    asked: Asked, node: FieldNode, field: GraphQLField, values: VariableValues, *, number: str
) -> Numbered | None:
    try:
        after = get_argument_values(field, node, values).get(AFTER)
    except GraphQLError:
        return None
    # A variable that says more than where to begin belongs to what is asked for.
    other = {name: value for name, value in (asked.variables or {}).items() if name != _beginning(node, asked.text)}
    values_text = orjson.dumps(other, option=orjson.OPT_SORT_KEYS)
    name = asked.operation_name
    return Numbered(
        stream=node.name.value,
        number=number,
        after=after,
        operation_name=name,
        key=(asked.text, name, values_text),
    )


def _beginning(node: FieldNode, text: str) -> str | None:
    """The variable that says where to begin, if it is used for that alone: then it is written twice."""
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
