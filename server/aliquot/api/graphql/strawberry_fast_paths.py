"""Strawberry fast paths: precompiled builders of input types, and a faster runner of extensions.

Strawberry determines the type of every field of every input for each request, a quarter of the time of a submission,
and the kind of every extension hook for each operation, a tenth of it. Here both are determined once.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING
from functools import lru_cache
from inspect import isgeneratorfunction
from types import TracebackType
from typing import Any, Final

import strawberry
from graphql import GraphQLError, OperationDefinitionNode, get_named_type, get_operation_ast
from graphql.execution.values import VariableValues, get_variable_values
from strawberry.extensions import SchemaExtension
from strawberry.extensions.context import (
    ExecutingContextManager,
    ExtensionContextManagerBase,
    OperationContextManager,
    ParsingContextManager,
    ValidationContextManager,
)
from strawberry.extensions.runner import SchemaExtensionsRunner
from strawberry.relay import GlobalID
from strawberry.scalars import is_scalar
from strawberry.types.arguments import InputContext
from strawberry.types.base import (
    StrawberryList,
    StrawberryMaybe,
    StrawberryObjectDefinition,
    StrawberryOptional,
    get_object_definition,
)
from strawberry.types.enum import StrawberryEnumDefinition, has_enum_definition
from strawberry.types.execution import ExecutionContext
from strawberry.types.lazy_type import LazyType
from strawberry.types.unset import UNSET

from aliquot.api.encoding import extent_of

Conversion = Callable[[Any, InputContext], Any]
"""Converts a present value for the field of an input."""

COERCION_ERRORS_MAX: Final = 50
"""As many as graphql-core reports."""

INLINE_VALUES_MAX: Final = 1_000
"""Values in the variables of an operation; more are coerced in a thread."""
Hook = Callable[[SchemaExtension], Iterator[None]]
_END: Final = object()


class _UnknownTypeError(Exception):
    """A kind of type that only Strawberry can build."""


def compile_inputs(schema: strawberry.Schema) -> None:
    """Install compiled builders for the input types of a schema. Results equal Strawberry's; a type with a field of
    an unknown kind is left to Strawberry."""
    compiler = _Compiler(schema)
    for concrete in tuple(schema.schema_converter.type_map.values()):
        definition = concrete.definition
        if isinstance(definition, StrawberryObjectDefinition) and definition.is_input and definition.from_input is None:
            try:
                definition.from_input = compiler.builder(definition)
            except _UnknownTypeError:
                continue


class ReadVariables(dict[str, Any]):
    """Raw variables of an operation, with their values coerced ahead of the execution."""

    def __init__(self, raw: Mapping[str, Any], values: VariableValues) -> None:
        super().__init__(raw)
        self.read = values


def read_variables(
    schema: strawberry.Schema, operation: OperationDefinitionNode, raw: dict[str, Any], *, hide_suggestions: bool
) -> ReadVariables | list[GraphQLError]:
    """Coerce variables and build their inputs, as the execution would; for a thread beside the event loop.

    Returns:
        The variables, or the errors in them.
    """
    values = get_variable_values(
        schema._schema,
        operation.variable_definitions or (),
        raw,
        max_errors=COERCION_ERRORS_MAX,
        hide_suggestions=hide_suggestions,
    )
    if isinstance(values, list):
        return values
    context = InputContext(
        info=None, config=schema.config, scalar_registry=schema.schema_converter.scalar_registry, path=()
    )
    for name, source in values.sources.items():
        concrete = schema.schema_converter.type_map.get(get_named_type(source.signature.type).name)
        definition = None if concrete is None else concrete.definition
        value = values.coerced.get(name)
        if isinstance(value, dict) and isinstance(definition, StrawberryObjectDefinition) and definition.from_input:
            values.coerced[name] = _Built(value, definition.from_input(definition.origin, value, context))
    return ReadVariables(raw, values)


class _Built(dict[str, Any]):
    """A coerced value, and the input built from it."""

    def __init__(self, value: Mapping[str, Any], input_: Any) -> None:
        super().__init__(value)
        self.input = input_


class _Compiler:
    def __init__(self, schema: strawberry.Schema) -> None:
        self._scalars: Final = schema.schema_converter.scalar_registry
        self._config: Final = schema.config

    def builder(self, definition: StrawberryObjectDefinition) -> Callable[[type, Mapping[str, Any], InputContext], Any]:
        """The function that builds an input from its coerced value."""
        unset = {
            field.python_name: None
            for field in definition.fields
            if field.default_value is MISSING and field.default_factory is MISSING
        }
        fields = [
            (
                self._config.name_converter.from_field(field),
                field.python_name,
                self._conversion(field.resolve_type(type_definition=definition)),
            )
            for field in definition.fields
        ]

        def build(kind: type, value: Mapping[str, Any], context: InputContext) -> Any:
            if isinstance(value, _Built):
                return value.input
            given: dict[str, Any] = dict(unset)
            for name, python_name, convert in fields:
                if name in value:
                    found = value[name]
                    is_plain = found is None or found is UNSET
                    given[python_name] = found if convert is None or is_plain else convert(found, context)
            return kind(**given)

        return build

    def _conversion(self, type_: Any) -> Conversion | None:
        """None = the value is used as it is."""
        if isinstance(type_, StrawberryMaybe) or type_ is GlobalID:
            raise _UnknownTypeError
        if isinstance(type_, StrawberryOptional):
            return self._conversion(type_.of_type)
        if isinstance(type_, LazyType):
            return self._conversion(type_.resolve_type())
        if isinstance(type_, StrawberryList):
            return _listed(self._conversion(type_.of_type))
        if is_scalar(type_, self._scalars) or isinstance(type_, StrawberryEnumDefinition) or has_enum_definition(type_):
            return None
        definition = get_object_definition(type_)
        if definition is None or not definition.is_input:
            raise _UnknownTypeError
        return _nested(definition, type_)


def _nested(definition: StrawberryObjectDefinition, type_: Any) -> Conversion:
    """Looked up when called: nested types may refer to each other, so not all are compiled yet."""

    def convert(value: Any, context: InputContext) -> Any:
        build = definition.from_input
        return context.convert(value, type_) if build is None else build(definition.origin, value, context)

    return convert


def _listed(convert: Conversion | None) -> Conversion:
    """Strawberry copies lists even of plain values, because a field's default is shared by all requests."""
    if convert is None:
        return lambda values, context: list(values)  # noqa: ARG005 # one interface
    return lambda values, context: [
        value if value is None or value is UNSET else convert(value, context) for value in values
    ]


class _Stage(ExtensionContextManagerBase):
    """Hooks are generators with one `yield`; they do not see exceptions."""

    __slots__ = ("_entered", "_extensions")

    def __init__(self, extensions: Sequence[SchemaExtension]) -> None:
        self._extensions = extensions
        self._entered: list[Iterator[None]] = []

    async def __aenter__(self) -> None:
        for extension in self._extensions:
            kind = type(extension)
            hook = _hook(kind, self.HOOK_NAME)  # type: ignore[arg-type]  # a class is hashed by its own type
            if hook is not None:
                entered = hook(extension)
                next(entered)
                self._entered.append(entered)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        if exc_val is not None:
            return
        for entered in reversed(self._entered):
            assert next(entered, _END) is _END, f"a hook of {self.HOOK_NAME} yields more than once"


class _Operation(_Stage, OperationContextManager):
    """Hooks of the whole operation."""


class _Parsing(_Stage, ParsingContextManager):
    """Hooks of parsing."""


class _Validation(_Stage, ValidationContextManager):
    """Hooks of validation, and the coercion of many variables in a thread."""

    __slots__ = ("_context",)

    def __init__(self, extensions: Sequence[SchemaExtension], context: ExecutionContext) -> None:
        super().__init__(extensions)
        self._context = context

    async def __aenter__(self) -> None:
        await super().__aenter__()
        context = self._context
        if context.pre_execution_errors or not context.variables:
            return
        if extent_of(context.variables, values_max=INLINE_VALUES_MAX).values <= INLINE_VALUES_MAX:
            return
        operation = get_operation_ast(context.graphql_document, context.operation_name)  # type: ignore[arg-type]
        if operation is None:
            return
        read = await asyncio.to_thread(
            read_variables, context.schema, operation, context.variables, hide_suggestions=_hides(context.schema)
        )
        if isinstance(read, ReadVariables):
            context.variables = read
        else:
            context.pre_execution_errors = read


class _Executing(_Stage, ExecutingContextManager):
    """Hooks of the execution."""


class ExtensionsRunner(SchemaExtensionsRunner):
    """Runner of the extensions of one asynchronous operation."""

    def operation(self) -> OperationContextManager:
        """Hooks of the whole operation."""
        return _Operation(self.extensions)

    def validation(self) -> ValidationContextManager:
        """Hooks of validation."""
        return _Validation(self.extensions, self.execution_context)

    def parsing(self) -> ParsingContextManager:
        """Hooks of parsing."""
        return _Parsing(self.extensions)

    def executing(self) -> ExecutingContextManager:
        """Hooks of the execution."""
        return _Executing(self.extensions)


@lru_cache
def _hook(kind: type[SchemaExtension], name: str) -> Hook | None:
    """None = the extension does not implement the hook."""
    found: Any = getattr(kind, name)
    if found is getattr(SchemaExtension, name):
        return None
    if not isgeneratorfunction(found):
        raise TypeError(f"{name} of {kind.__name__} must be a generator; other kinds of hooks are not supported")
    hook: Hook = found
    return hook


def _hides(schema: Any) -> bool:
    """Whether errors name no similar names of the schema."""
    return bool(getattr(schema.execution_context_class, "hides_suggestions", False))
