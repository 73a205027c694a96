"""Types of the generated client: annotations, source of classes, and their layout in modules.

A type is in the client module named after the schema module that defines it.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from graphql import (
    GraphQLEnumType,
    GraphQLInputField,
    GraphQLInputObjectType,
    GraphQLInputType,
    GraphQLList,
    GraphQLNamedType,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLSchema,
    GraphQLUnionType,
    Undefined,
    ValueNode,
    get_named_type,
    is_specified_scalar_type,
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
"""Python types of scalars; msgspec decodes times."""

AnyType = GraphQLInputType | GraphQLOutputType


def annotation(of: AnyType, *, is_sent: bool = False) -> str:
    """Annotation of a field or an argument; nullable types end in `| None`."""
    if isinstance(of, GraphQLNonNull):
        return _present(of.of_type, is_sent=is_sent)
    return f"{_present(of, is_sent=is_sent)} | None"


def names_in(of: AnyType) -> set[str]:
    """Generated classes, and `datetime`, that the annotation names."""
    named = get_named_type(of)
    if named.name == "DateTime":
        return {"datetime"}
    return set() if named.name in SCALARS or isinstance(named, GraphQLUnionType) else {named.name}


def default_text(of: AnyType, written: ValueNode) -> str:
    """A default of the schema as a Python expression."""
    value = value_from_ast_untyped(written)
    named = get_named_type(of)
    if value is not None and isinstance(named, GraphQLEnumType):
        return f"{named.name}.{str(value).upper()}"
    # GraphQL prints a whole Float as an integer.
    return repr(float(value) if named.name == "Float" and value is not None else value)


def _present(of: AnyType, *, is_sent: bool) -> str:
    if isinstance(of, GraphQLList):
        item = annotation(of.of_type, is_sent=is_sent)
        # Results are immutable; inputs accept any sequence.
        return f"Sequence[{item}]" if is_sent else f"tuple[{item}, ...]"
    named = get_named_type(of)
    return SCALARS.get(named.name, named.name)


RESERVED: Final = frozenset(
    {"enums", "errors", "fragments", "mutations", "pages", "queries", "results", "subscriptions"}
)
"""Modules of the generated package with operations, or with types from several sources."""
ROOTS: Final = ("Query", "Mutation", "Subscription")
FOLDER: Final = "aliquot.client.generated"

Written = GraphQLObjectType | GraphQLInputObjectType | GraphQLEnumType


def layout(schema: GraphQLSchema, *, sources: Mapping[str, str]) -> dict[str, str]:
    """Client module by type.

    Args:
        sources: schema module that defines the type, by type; generic types have none.
    """
    return {written.name: _module(written, sources) for written in _written(schema)}


def success_of(union: GraphQLUnionType) -> GraphQLObjectType:
    """The member of a result that is not an expected error."""
    members: list[GraphQLObjectType] = [member for member in union.types if not is_error(member)]
    assert len(members) == 1, f"{union.name} must have exactly one member that is not an error"
    return members[0]


def is_error(of: GraphQLNamedType) -> bool:
    """Whether it is an expected error."""
    return isinstance(of, GraphQLObjectType) and any(one.name == "Error" for one in of.interfaces)


def members_first(schema: GraphQLSchema, names: set[str]) -> list[Written]:
    """These types in definition order: each after the types of its fields, otherwise by name."""
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
    module = source.rpartition(".")[2]
    return f"{module}_types" if module in RESERVED else module


def _inner(of: Written) -> Iterator[GraphQLNamedType]:
    if not isinstance(of, GraphQLEnumType):
        for field in of.fields.values():
            yield get_named_type(field.type)


def class_text(of: Written) -> str:
    """Source of a class, with the schema's descriptions as docstrings."""
    if isinstance(of, GraphQLEnumType):
        return _enum(of)
    return _input(of) if isinstance(of, GraphQLInputObjectType) else _object(of)


def quoted(text: str | None, *, indent: int) -> str:
    """A docstring, or an empty text; quotes of a long one are on separate lines."""
    if not text:
        return ""
    pad = " " * indent
    (first, *rest) = text.strip().splitlines()
    if len(first) + indent + 6 > 120 or rest:
        body = "\n".join(pad + line for line in _wrapped(text.strip(), width=120 - indent))
        return f'{pad}"""\n{body}\n{pad}"""\n'
    return f'{pad}"""{first}"""\n'


def _enum(of: GraphQLEnumType) -> str:
    members = "\n".join(f'    {name.upper()} = "{name}"' for name in of.values)
    return f"class {of.name}(StrEnum):\n{quoted(of.description, indent=4)}\n{members}\n"


def _object(of: GraphQLObjectType) -> str:
    fields = "".join(
        f"    {name}: {annotation(field.type)}\n{quoted(field.description, indent=4)}"
        for name, field in of.fields.items()
    )
    return f"class {of.name}(Struct, frozen=True, kw_only=True):\n{quoted(of.description, indent=4)}\n{fields}"


def _input(of: GraphQLInputObjectType) -> str:
    fields = "".join(
        f"    {name}: {_sent(field)}\n{quoted(field.description, indent=4)}" for name, field in of.fields.items()
    )
    head = f"class {of.name}(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):\n"
    return f"{head}{quoted(of.description, indent=4)}\n{fields}"


def _sent(field: GraphQLInputField) -> str:
    written = field.ast_node.default_value if field.ast_node else None
    text = annotation(field.type, is_sent=True)
    if written is not None:
        return f"{text} = {default_text(field.type, written)}"
    assert field.default_value is Undefined, "defaults are read from the printed schema"
    return f"{text} = None" if text.endswith("| None") else text


def _wrapped(text: str, *, width: int) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
