"""Inputs: precompiled builders of input types, and the coercion of variables.

Strawberry determines the type of every field of every input for each request, which takes a quarter of the time of a
submission. Here it is determined once.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import Any, Final

import strawberry
from graphql import GraphQLError, OperationDefinitionNode, get_named_type
from graphql.execution.values import VariableValues, get_variable_values
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
from strawberry.types.lazy_type import LazyType
from strawberry.types.unset import UNSET

Conversion = Callable[[Any, InputContext], Any]
"""Converts a present value for the field of an input."""

COERCION_ERRORS_MAX: Final = 50
"""As many as graphql-core reports."""


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
            values.coerced[name] = _CoercedInput(value, definition.from_input(definition.origin, value, context))
    return ReadVariables(raw, values)


class _CoercedInput(dict[str, Any]):
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
            if isinstance(value, _CoercedInput):
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
