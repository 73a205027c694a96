"""The text of a method that asks for one field of a root type, for the async and for the blocking client."""

from typing import Final, NamedTuple

from graphql import (
    GraphQLArgument,
    GraphQLField,
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLUnionType,
    get_named_type,
    print_ast,
)

from aliquot_schema.graphql.client_code.annotations import annotation, default_text, names_in
from aliquot_schema.graphql.client_code.classes import quoted
from aliquot_schema.graphql.client_code.layout import success_of
from aliquot_schema.graphql.client_code.selections import selected

WORDS: Final = {"Query": "query", "Mutation": "mutation", "Subscription": "subscription"}

METHODS: Final = {"events": "event_log"}
"""Methods that have another name than their field, where the client has more to say under that name itself."""


class Operation(NamedTuple):
    """One field of a root type."""

    root: str
    name: str
    field: GraphQLField
    answer: str
    """What the method returns, as an annotation."""
    is_result: bool
    """Whether it may be an expected error instead."""

    @property
    def method(self) -> str:
        """What the method is called."""
        return METHODS.get(self.name, self.name)


def operations(schema: GraphQLSchema, root: str) -> list[Operation]:
    """The fields of a root type, in its order."""
    of = schema.type_map[root]
    assert isinstance(of, GraphQLObjectType)
    return [_operation(root, name, field) for name, field in of.fields.items()]


def document(operation: Operation) -> str:
    """The operation without its fragments."""
    declared = ", ".join(f"${name}: {arg.type}{_default(arg)}" for name, arg in operation.field.args.items())
    passed = ", ".join(f"{name}: ${name}" for name in operation.field.args)
    head = f"{WORDS[operation.root]} {operation.name}{f'({declared})' if declared else ''}"
    return f"{head} {{ {operation.name}{f'({passed})' if passed else ''}{selected(operation.field.type)} }}"


def async_method(operation: Operation) -> str:
    """The method of the async client."""
    variables = ", ".join(f'"{name}": {name}' for name in operation.field.args)
    ask = "_follow" if operation.root == "Subscription" else "_change" if operation.is_result else "_read"
    call = f"self.{ask}({operation.name.upper()}, {{{variables}}}, {operation.answer})"
    doc = quoted(operation.field.description, indent=8)
    if operation.root == "Subscription":
        found = f"AsyncGenerator[{operation.answer}, None]"
        return f"    def {operation.method}({_parameters(operation)}) -> {found}:\n{doc}        return {call}\n"
    return (
        f"    async def {operation.method}({_parameters(operation)}) -> {operation.answer}:\n{doc}"
        f"        found: {operation.answer} = await {call}\n        return found\n"
    )


def blocking_method(operation: Operation) -> str:
    """The method of the blocking client, which has the async one run."""
    doc = quoted(operation.field.description, indent=8)
    passed = ", ".join(_passed(operation))
    is_stream = operation.root == "Subscription"
    answer = f"Generator[{operation.answer}, None, None]" if is_stream else operation.answer
    run = "_each" if is_stream else "_run"
    return (
        f"    def {operation.method}({_parameters(operation)}) -> {answer}:\n{doc}"
        f"        return self.{run}(self._client.{operation.method}({passed}))\n"
    )


def classes_of(operation: Operation) -> set[str]:
    """What a method's signature names."""
    found: set[str] = set().union(*(names_in(arg.type) for arg in operation.field.args.values()))
    if operation.is_result:
        return found | {operation.answer}
    return found | names_in(operation.field.type)


def _operation(root: str, name: str, field: GraphQLField) -> Operation:
    named = get_named_type(field.type)
    if isinstance(named, GraphQLUnionType):
        return Operation(root, name, field, success_of(named).name, is_result=True)
    return Operation(root, name, field, annotation(field.type), is_result=False)


def _parameters(operation: Operation) -> str:
    """The first that has no default by position, all others by name."""
    needed = [f"{name}: {_asked(arg)}" for name, arg in operation.field.args.items() if not _has_default(arg)]
    others = [f"{name}: {_asked(arg)}" for name, arg in operation.field.args.items() if _has_default(arg)]
    named = [*needed[1:], *others]
    return ", ".join(["self", *needed[:1], *(["*", *named] if named else [])])


def _passed(operation: Operation) -> list[str]:
    needed = [name for name, arg in operation.field.args.items() if not _has_default(arg)]
    return [*needed[:1], *(f"{name}={name}" for name in operation.field.args if name not in needed[:1])]


def _asked(arg: GraphQLArgument) -> str:
    written = arg.ast_node.default_value if arg.ast_node else None
    return annotation(arg.type, is_sent=True) + (f" = {default_text(arg.type, written)}" if written is not None else "")


def _has_default(arg: GraphQLArgument) -> bool:
    return arg.ast_node is not None and arg.ast_node.default_value is not None


def _default(arg: GraphQLArgument) -> str:
    assert arg.ast_node is not None
    written = arg.ast_node.default_value
    return f" = {print_ast(written)}" if written is not None else ""
