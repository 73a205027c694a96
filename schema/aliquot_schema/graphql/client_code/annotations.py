"""How a GraphQL type is written in Python."""

from typing import Final

from graphql import (
    GraphQLEnumType,
    GraphQLInputType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLOutputType,
    GraphQLUnionType,
    ValueNode,
    get_named_type,
    value_from_ast_untyped,
)

SCALARS: Final = {
    "String": "str",
    "ID": "str",
    "Int": "int",
    "BigInt": "int",
    "Float": "float",
    "Boolean": "bool",
    "DateTime": "datetime",
    "Priority": "str",
}
"""Python's types of what a scalar is in JSON; msgspec reads times."""

AnyType = GraphQLInputType | GraphQLOutputType


def annotation(of: AnyType, *, is_sent: bool = False) -> str:
    """The annotation of a field or an argument; what may be null ends in `| None`."""
    if isinstance(of, GraphQLNonNull):
        return _present(of.of_type, is_sent=is_sent)
    return f"{_present(of, is_sent=is_sent)} | None"


def names_in(of: AnyType) -> set[str]:
    """The classes of ours that the annotation names, and `datetime`."""
    named = get_named_type(of)
    if named.name == "DateTime":
        return {"datetime"}
    return set() if named.name in SCALARS or isinstance(named, GraphQLUnionType) else {named.name}


def default_text(of: AnyType, written: ValueNode) -> str:
    """A default of the schema, as Python writes it."""
    value = value_from_ast_untyped(written)
    named = get_named_type(of)
    if value is not None and isinstance(named, GraphQLEnumType):
        return f"{named.name}.{str(value).upper()}"
    # GraphQL writes a whole number of a Float as an integer.
    return repr(float(value) if named.name == "Float" and value is not None else value)


def _present(of: AnyType, *, is_sent: bool) -> str:
    if isinstance(of, GraphQLList):
        item = annotation(of.of_type, is_sent=is_sent)
        # Nobody changes an answer.
        return f"Sequence[{item}]" if is_sent else f"tuple[{item}, ...]"
    named = get_named_type(of)
    return SCALARS.get(named.name, named.name)
