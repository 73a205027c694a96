"""What is asked of the server: every field of a type, as fragments that name each other."""

from graphql import (
    GraphQLField,
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLSchema,
    GraphQLUnionType,
    get_named_type,
)

from aliquot_schema.graphql.client_code.layout import ROOTS


def fragments(schema: GraphQLSchema) -> dict[str, str]:
    """The selection of each type that has fields, or members, by its name."""
    found: dict[str, str] = {}
    for name, of in schema.type_map.items():
        if name.startswith("__") or name in ROOTS:
            continue
        if isinstance(of, GraphQLUnionType):
            found[name] = _of_union(of)
        elif isinstance(of, GraphQLObjectType | GraphQLInterfaceType):
            found[name] = " ".join(_field(name, field) for name, field in of.fields.items())
    return found


def selected(of: GraphQLOutputType) -> str:
    """The braces after a field of this type; nothing for a leaf."""
    named = get_named_type(of)
    has_fields = isinstance(named, GraphQLObjectType | GraphQLInterfaceType | GraphQLUnionType)
    return f" {{ ...{named.name} }}" if has_fields else ""


def _of_union(of: GraphQLUnionType) -> str:
    # Some errors have fields of one name and different types, which one selection cannot have.
    seen: dict[str, str] = {}
    members = []
    for member in of.types:
        fields = []
        for name, field in member.fields.items():
            alias = "" if seen.setdefault(name, str(field.type)) == str(field.type) else f"{member.name}_{name}: "
            fields.append(f"{alias}{_field(name, field)}")
        members.append(f"... on {member.name} {{ {' '.join(fields)} }}")
    # A newer server may have errors that this schema does not know.
    return " ".join(["__typename", *members, "... on Error { code message }"])


def _field(name: str, field: GraphQLField) -> str:
    return f"{name}{selected(field.type)}"
