"""Text of the GraphQL reference: linked types, arguments, deprecations and access rules."""

from collections.abc import Mapping

from graphql import GraphQLArgument, GraphQLField, GraphQLInputField, get_named_type
from graphql.language import print_ast
from graphql.utilities import ast_from_value

from aliquot_docs.markdown import code, text
from aliquot_schema.identity.access import Access


def type_link(kind: object) -> str:
    """A type in GraphQL notation, its named type as a link."""
    name = get_named_type(kind).name  # type: ignore[call-overload] # types of a schema are always accepted
    before, _, after = str(kind).partition(name)
    linked = f"{before}[{name}](#graphql-{name.lower()}){after}"
    return linked.replace("[[", "\\[[").replace(")]", ")\\]").replace(")!]", ")!\\]")


def arguments_list(arguments: Mapping[str, GraphQLArgument | GraphQLInputField]) -> str:
    """A line per argument or input field."""
    return "\n".join(
        f"- {code(name)}: {type_link(one.type)}{_default(one)}{_description(one)}" for name, one in arguments.items()
    )


def description_of(field: GraphQLField | GraphQLInputField | GraphQLArgument) -> str:
    """The description of a field, and the reason of its deprecation."""
    reason = field.deprecation_reason
    return text(field.description or "") + (f" *Deprecated: {text(reason)}*" if reason else "")


def access_rule(access: Access) -> str:
    """An access rule as a sentence."""
    least = access.least.name.lower()
    if access.others is None:
        return f"Requires: **{least}** or above."
    others = access.others.name.lower()
    return f"Requires: **{least}** for own objects, **{others}** or above for those of others."


def _default(one: GraphQLArgument | GraphQLInputField) -> str:
    value = ast_from_value(one.default_value, one.type) if one.default_value is not None else None
    return "" if value is None or "Undefined" in str(one.default_value) else f" = {code(print_ast(value))}"


def _description(one: GraphQLArgument | GraphQLInputField) -> str:
    return f" — {description_of(one)}" if one.description or one.deprecation_reason else ""
