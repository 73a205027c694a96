"""The GraphQL reference: a page of operations, and one for each kind of type, from the schema and the access rules."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from graphql import (
    GraphQLEnumType,
    GraphQLField,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLScalarType,
    GraphQLSchema,
    GraphQLUnionType,
    build_schema,
)

from aliquot_docs.markdown import code, table, text
from aliquot_docs.pages.graphql_text import arguments_list, described, type_link, who
from aliquot_schema.access import FIELDS, ROOTS
from aliquot_schema.graphql.sdl import schema_text
from aliquot_schema.privacy import Sight

ROOT_TYPES: Final = ("Query", "Mutation", "Subscription")
SIGHTS: Final = {
    Sight.MEMBER: "members of its project and operators",
    Sight.OWNER: "its owner and admins",
}


def graphql_pages() -> Mapping[str, str]:
    """By file name, a page."""
    schema = build_schema(schema_text())
    types = [
        kind for name, kind in sorted(schema.type_map.items()) if not name.startswith("__") and name not in ROOT_TYPES
    ]
    return {
        "graphql-operations.md": _operations(schema),
        "graphql-objects.md": _page("Objects", _of(types, GraphQLObjectType, GraphQLInterfaceType, GraphQLUnionType)),
        "graphql-inputs.md": _page("Inputs", _of(types, GraphQLInputObjectType)),
        "graphql-values.md": _page("Enumerations and scalars", _of(types, GraphQLEnumType, GraphQLScalarType)),
    }


def _operations(schema: GraphQLSchema) -> str:
    parts = ["# Operations\n"]
    for root in ROOT_TYPES:
        kind = schema.type_map[root]
        assert isinstance(kind, GraphQLObjectType)
        parts.append(f"## {root}\n")
        parts += [_operation(root, name, field) for name, field in sorted(kind.fields.items())]
    return "\n".join(parts)


def _operation(root: str, name: str, field: GraphQLField) -> str:
    lines = [f"### {name}\n", f"{described(field)}\n", f"Answers with {type_link(field.type)}."]
    lines.append(f"{who(ROOTS[f'{root}.{name}'])}\n")
    if field.args:
        lines.append(f"{arguments_list(field.args)}\n")
    return "\n".join(lines)


def _of(types: Iterable[GraphQLNamedType], *kinds: type) -> Iterator[str]:
    return (_type(kind) for kind in types if isinstance(kind, kinds))


def _page(title: str, parts: Iterable[str]) -> str:
    return "\n".join([f"# {title}\n", *parts])


def _type(kind: GraphQLNamedType) -> str:
    head = f"(graphql-{kind.name.lower()})=\n## {kind.name}\n\n{text(kind.description or '')}\n"
    return f"{head}\n{_body(kind)}\n"


def _body(kind: GraphQLNamedType) -> str:
    match kind:
        case GraphQLUnionType():
            return f"One of {', '.join(type_link(one) for one in kind.types)}.\n"
        case GraphQLEnumType():
            rows = ((code(name), text(value.description or "")) for name, value in kind.values.items())
            return table(("value", "meaning"), rows)
        case GraphQLInputObjectType():
            return f"{arguments_list(kind.fields)}\n"
        case GraphQLObjectType() | GraphQLInterfaceType():
            return _fields(kind)
    return ""


def _fields(kind: GraphQLObjectType | GraphQLInterfaceType) -> str:
    of = f"Is {', '.join(type_link(one) for one in kind.interfaces)}.\n\n" if kind.interfaces else ""
    rows = ((code(name), type_link(field.type), _meaning(kind, name, field)) for name, field in kind.fields.items())
    return of + table(("field", "type", "meaning"), rows)


def _meaning(kind: GraphQLNamedType, name: str, field: GraphQLField) -> str:
    taken = ", ".join(f"{code(name)}: {type_link(one.type)}" for name, one in field.args.items())
    sight = FIELDS.get(kind.name, {}).get(name)
    seen = f"Seen by {SIGHTS[sight]}." if sight in SIGHTS else ""
    return " ".join(part for part in (described(field), f"Takes {taken}." if taken else "", seen) if part)
