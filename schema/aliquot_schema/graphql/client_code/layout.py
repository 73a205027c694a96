"""Which module of the client a type is in: as the schema's own sources have them."""

from collections.abc import Iterator, Mapping
from typing import Final

from graphql import (
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLUnionType,
    get_named_type,
    is_specified_scalar_type,
)

ROOTS: Final = ("Query", "Mutation", "Subscription")
FOLDER: Final = "aliquot.client.generated"

Written = GraphQLObjectType | GraphQLInputObjectType | GraphQLEnumType


def layout(schema: GraphQLSchema, *, sources: Mapping[str, str]) -> dict[str, str]:
    """The module, by type.

    Args:
        sources: the module of the schema's sources that a type is written in, by type; generic ones have none.
    """
    return {written.name: _module(written, sources) for written in _written(schema)}


def success_of(union: GraphQLUnionType) -> GraphQLObjectType:
    """The one member of a result that is no expected error."""
    members: list[GraphQLObjectType] = [member for member in union.types if not is_error(member)]
    assert len(members) == 1, f"{union.name} has one member that is no error"
    return members[0]


def is_error(of: GraphQLNamedType) -> bool:
    """Whether it is one of the expected errors."""
    return isinstance(of, GraphQLObjectType) and any(one.name == "Error" for one in of.interfaces)


def members_first(schema: GraphQLSchema, names: set[str]) -> list[Written]:
    """Those types, each after those that it has in its fields; else by name."""
    ordered: dict[str, Written] = {}

    def add(of: GraphQLNamedType) -> None:
        if of.name not in names or of.name in ordered or not isinstance(of, Written):
            return
        for inner in _inner(of):
            add(inner)
        ordered[of.name] = of

    for name in sorted(names):
        add(schema.type_map[name])
    return list(ordered.values())


def _written(schema: GraphQLSchema) -> Iterator[Written]:
    for name, of in schema.type_map.items():
        is_left_out = name.startswith("__") or name in ROOTS or is_specified_scalar_type(of) or is_error(of)
        if isinstance(of, Written) and not is_left_out:
            yield of


def _module(of: Written, sources: Mapping[str, str]) -> str:
    if isinstance(of, GraphQLEnumType):
        return "enums"
    if of.name.endswith("Success"):
        return "results"
    source = sources.get(of.name, "")
    if not source.startswith("aliquot_schema.graphql."):
        return "pages"
    return source.rpartition(".")[2].removesuffix("_types")


def _inner(of: Written) -> Iterator[GraphQLNamedType]:
    if not isinstance(of, GraphQLEnumType):
        for field in of.fields.values():
            yield get_named_type(field.type)
