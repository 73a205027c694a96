"""GraphQL reference: operations and types, from the schema and the access rules."""

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
from aliquot_docs.pages.graphql_text import access_rule, arguments_list, description_of, type_link
from aliquot_schema.graphql.schema import schema_text
from aliquot_schema.identity.access import FIELDS, ROOTS, Visibility

ROOT_TYPES: Final = ("Query", "Mutation", "Subscription")
VISIBLE_TO: Final = {
    Visibility.MEMBER: "members of its project and operators",
    Visibility.OWNER: "its owner and admins",
}


def graphql_pages() -> Mapping[str, str]:
    """Pages by file name."""
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
    lines = [f"### {name}\n", f"{description_of(field)}\n", f"Returns {type_link(field.type)}."]
    lines.append(f"{access_rule(ROOTS[f'{root}.{name}'])}\n")
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
    implements = f"Implements {', '.join(type_link(one) for one in kind.interfaces)}.\n\n" if kind.interfaces else ""
    rows = ((code(name), type_link(field.type), _meaning(kind, name, field)) for name, field in kind.fields.items())
    return implements + table(("field", "type", "meaning"), rows)


def _meaning(kind: GraphQLNamedType, name: str, field: GraphQLField) -> str:
    arguments = ", ".join(f"{code(name)}: {type_link(one.type)}" for name, one in field.args.items())
    visibility = FIELDS.get(kind.name, {}).get(name)
    restriction = f"Visible to {VISIBLE_TO[visibility]}." if visibility in VISIBLE_TO else ""
    return " ".join(
        part for part in (description_of(field), f"Arguments: {arguments}." if arguments else "", restriction) if part
    )
