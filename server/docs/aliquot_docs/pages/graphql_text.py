"""Words of the GraphQL reference: types as links, arguments, what is deprecated, who may ask."""

from collections.abc import Mapping

from graphql import GraphQLArgument, GraphQLField, GraphQLInputField, get_named_type
from graphql.language import print_ast
from graphql.utilities import ast_from_value

from aliquot_docs.markdown import code, text
from aliquot_schema.access import Access


def type_link(kind: object) -> str:
    """A type as it is written, with a link to the type that it is made of."""
    name = get_named_type(kind).name  # type: ignore[call-overload] # every type that a schema has is one that it takes
    before, _, after = str(kind).partition(name)
    shown = f"{before}[{name}](#graphql-{name.lower()}){after}"
    return shown.replace("[[", "\\[[").replace(")]", ")\\]").replace(")!]", ")!\\]")


def arguments_list(arguments: Mapping[str, GraphQLArgument | GraphQLInputField]) -> str:
    """A line for each argument, or field of an input."""
    return "\n".join(
        f"- {code(name)}: {type_link(one.type)}{_default(one)}{_said(one)}" for name, one in arguments.items()
    )


def described(field: GraphQLField | GraphQLInputField | GraphQLArgument) -> str:
    """What the schema says of a field."""
    late = field.deprecation_reason
    return text(field.description or "") + (f" *Deprecated: {text(late)}*" if late else "")


def who(access: Access) -> str:
    """The rule in a sentence."""
    least = access.least.name.lower()
    if access.others is None:
        return f"Who may ask: a **{least}** and above."
    others = access.others.name.lower()
    return f"Who may ask: a **{least}** about what is their own; of others, an **{others}** and above."


def _default(one: GraphQLArgument | GraphQLInputField) -> str:
    value = ast_from_value(one.default_value, one.type) if one.default_value is not None else None
    return "" if value is None or "Undefined" in str(one.default_value) else f" = {code(print_ast(value))}"


def _said(one: GraphQLArgument | GraphQLInputField) -> str:
    return f" — {described(one)}" if one.description or one.deprecation_reason else ""
