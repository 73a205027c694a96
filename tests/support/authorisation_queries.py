"""Operations for every root field, made from the schema: all arguments that are needed, and the least that is asked."""

from collections.abc import Mapping
from typing import Any, Final

from graphql import (
    GraphQLEnumType,
    GraphQLField,
    GraphQLInputObjectType,
    GraphQLInputType,
    GraphQLList,
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLUnionType,
    build_schema,
    get_named_type,
    get_nullable_type,
    is_leaf_type,
    is_required_argument,
    is_required_input_field,
)

from aliquot_schema.graphql.schema import schema_text

SCHEMA: Final[GraphQLSchema] = build_schema(schema_text())
TEXT: Final = "x"
VALUES: Final[Mapping[str, Any]] = {"Int": 1, "Float": 1.0, "Boolean": True, "DateTime": "2026-01-01T00:00:00Z"}
"""What is given where an argument's type says all; others are given a text."""


def root_fields() -> dict[str, GraphQLField]:
    """By `<root type>.<field>`."""
    roots = (SCHEMA.query_type, SCHEMA.mutation_type, SCHEMA.subscription_type)
    return {f"{root.name}.{name}": field for root in roots if root for name, field in root.fields.items()}


def operation(name: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A root field's operation and its variables; `given` are arguments in place of those made up."""
    kind, _, field_name = name.partition(".")
    field = root_fields()[name]
    needed = {arg: value.type for arg, value in field.args.items() if is_required_argument(value) or arg in given}
    variables = {arg: given[arg] if arg in given else value_of(type_) for arg, type_ in needed.items()}
    declared = ", ".join(f"${arg}: {type_}" for arg, type_ in needed.items())
    passed = ", ".join(f"{arg}: ${arg}" for arg in needed)
    head = f"{kind.lower()}{f'({declared})' if declared else ''}"
    return f"{head} {{ {field_name}{f'({passed})' if passed else ''} {_selection(field)} }}", variables


def value_of(type_: GraphQLInputType) -> Any:
    """Some value of an input type: all that is needed in it, and no more."""
    plain = get_nullable_type(type_)
    if isinstance(plain, GraphQLList):
        return [value_of(plain.of_type)]
    if isinstance(plain, GraphQLEnumType):
        return next(iter(plain.values))
    if isinstance(plain, GraphQLInputObjectType):
        fields = plain.fields.items()
        needed = list(fields)[:1] if plain.is_one_of else [(n, f) for n, f in fields if is_required_input_field(f)]
        return {name: value_of(field.type) for name, field in needed}
    return VALUES.get(getattr(plain, "name", ""), TEXT)


def leaves(type_name: str, *, depth: int = 3) -> str:
    """A selection of every leaf below a type."""
    found = []
    type_ = SCHEMA.type_map[type_name]
    assert isinstance(type_, GraphQLObjectType)
    for name, field in type_.fields.items():
        below = get_named_type(field.type)
        if is_leaf_type(below):
            found.append(name)
        elif depth and isinstance(below, GraphQLObjectType):
            found.append(f"{name} {leaves(below.name, depth=depth - 1)}")
    return f"{{ {' '.join(found)} }}"


def _selection(field: GraphQLField) -> str:
    type_ = get_named_type(field.type)
    if isinstance(type_, GraphQLUnionType):
        outcomes = "... on ChangeSessionsSuccess { results { code } }" if type_.name == "ChangeSessionsResult" else ""
        return f"{{ __typename ... on Error {{ code message }} {outcomes} }}"
    return "" if is_leaf_type(type_) else "{ __typename }"
