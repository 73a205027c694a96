"""The text of a class: an enum, what the server answers, or what is sent to it."""

from graphql import GraphQLEnumType, GraphQLInputField, GraphQLInputObjectType, GraphQLObjectType, Undefined

from aliquot_schema.graphql.client_code.annotations import annotation, default_text
from aliquot_schema.graphql.client_code.layout import Written


def class_text(of: Written) -> str:
    """The class, with what the schema says about it and about each of its fields."""
    if isinstance(of, GraphQLEnumType):
        return _enum(of)
    return _input(of) if isinstance(of, GraphQLInputObjectType) else _object(of)


def quoted(text: str | None, *, indent: int) -> str:
    """A docstring, or nothing; a long one has its marks on lines of their own."""
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
    assert field.default_value is Undefined, "defaults are read from what the schema prints"
    return f"{text} = None" if text.endswith("| None") else text


def _wrapped(text: str, *, width: int) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
