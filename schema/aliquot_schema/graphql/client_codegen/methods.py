"""Methods of the generated clients: one per root field, with its document and the fragments it selects.

Fragments select every field of a type and refer to each other.
"""

from typing import Final, NamedTuple

from graphql import (
    GraphQLArgument,
    GraphQLField,
    GraphQLInterfaceType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLSchema,
    GraphQLUnionType,
    get_named_type,
    print_ast,
)

from aliquot_schema.graphql.client_codegen.types import ROOTS, annotation, default_text, names_in, quoted, success_of


def fragments(schema: GraphQLSchema) -> dict[str, str]:
    """Selections of all types that have fields or members, by type name."""
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
    """The selection after a field of this type; empty for a leaf."""
    named = get_named_type(of)
    has_fields = isinstance(named, GraphQLObjectType | GraphQLInterfaceType | GraphQLUnionType)
    return f" {{ ...{named.name} }}" if has_fields else ""


def _of_union(of: GraphQLUnionType) -> str:
    # Fields of the same name but different types conflict in one selection, hence the aliases.
    seen: dict[str, str] = {}
    members = []
    for member in of.types:
        fields = []
        for name, field in member.fields.items():
            alias = "" if seen.setdefault(name, str(field.type)) == str(field.type) else f"{member.name}_{name}: "
            fields.append(f"{alias}{_field(name, field)}")
        members.append(f"... on {member.name} {{ {' '.join(fields)} }}")
    # A newer server may return errors that this schema does not have.
    return " ".join(["__typename", *members, "... on Error { code message }"])


def _field(name: str, field: GraphQLField) -> str:
    return f"{name}{selected(field.type)}"


_KEYWORDS: Final = {"Query": "query", "Mutation": "mutation", "Subscription": "subscription"}

METHODS: Final = {"events": "event_log"}
"""Methods named differently from their field, because the client itself defines a method of that name."""


class Operation(NamedTuple):
    """One field of a root type."""

    root: str
    name: str
    field: GraphQLField
    answer: str
    """Annotation of the method's return value."""
    is_result: bool
    """Whether the field is a union of success and expected errors, or a list of such."""
    success: str = ""
    """The class of the success, if so."""

    @property
    def is_list(self) -> bool:
        """Whether the field is a list of results."""
        return self.is_result and self.answer != self.success

    @property
    def method(self) -> str:
        """Name of the method."""
        return METHODS.get(self.name, self.name)


def operations(schema: GraphQLSchema, root: str) -> list[Operation]:
    """The fields of a root type, in schema order."""
    of = schema.type_map[root]
    assert isinstance(of, GraphQLObjectType)
    return [_operation(root, name, field) for name, field in of.fields.items()]


def document(operation: Operation) -> str:
    """The GraphQL document of an operation, without fragments."""
    declared = ", ".join(f"${name}: {arg.type}{_default(arg)}" for name, arg in operation.field.args.items())
    passed = ", ".join(f"{name}: ${name}" for name in operation.field.args)
    head = f"{_KEYWORDS[operation.root]} {operation.name}{f'({declared})' if declared else ''}"
    return f"{head} {{ {operation.name}{f'({passed})' if passed else ''}{selected(operation.field.type)} }}"


def async_method(operation: Operation) -> str:
    """Source of the async client's method."""
    variables = ", ".join(f'"{name}": {name}' for name in operation.field.args)
    ask = "_follow" if operation.root == "Subscription" else "_change" if operation.is_result else "_read"
    ask = "_change_each" if operation.is_list else ask
    call = f"self.{ask}({operation.name.upper()}, {{{variables}}}, {operation.success or operation.answer})"
    doc = quoted(operation.field.description, indent=8)
    if operation.root == "Subscription":
        found = f"AsyncGenerator[{operation.answer}, None]"
        return f"    def {operation.method}({_parameters(operation)}) -> {found}:\n{doc}        return {call}\n"
    return (
        f"    async def {operation.method}({_parameters(operation)}) -> {operation.answer}:\n{doc}"
        f"        found: {operation.answer} = await {call}\n        return found\n"
    )


def blocking_method(operation: Operation) -> str:
    """Source of the blocking client's method, which runs the async one: a stream on the event loop of the client."""
    doc = quoted(operation.field.description, indent=8)
    passed = ", ".join(_passed(operation))
    is_stream = operation.root == "Subscription"
    answer = f"Generator[{operation.answer}, None, None]" if is_stream else operation.answer
    run = "_each(self._client" if is_stream else "_ask(self._plain"
    return (
        f"    def {operation.method}({_parameters(operation)}) -> {answer}:\n{doc}"
        f"        return self.{run}.{operation.method}({passed}))\n"
    )


def classes_of(operation: Operation) -> set[str]:
    """Classes named in a method's signature."""
    found: set[str] = set().union(*(names_in(arg.type) for arg in operation.field.args.values()))
    if operation.is_result:
        return found | {operation.success}
    return found | names_in(operation.field.type)


def _operation(root: str, name: str, field: GraphQLField) -> Operation:
    named = get_named_type(field.type)
    if isinstance(named, GraphQLUnionType):
        success = success_of(named).name
        kind = field.type.of_type if isinstance(field.type, GraphQLNonNull) else field.type
        answer = f"tuple[{success} | Refused, ...]" if isinstance(kind, GraphQLList) else success
        return Operation(root, name, field, answer, is_result=True, success=success)
    return Operation(root, name, field, annotation(field.type), is_result=False)


def _parameters(operation: Operation) -> str:
    """Parameter list: the first required argument is positional, all others are keyword-only."""
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
