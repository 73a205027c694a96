"""Inputs: each input type is built by a function that knows its fields.

Strawberry finds out the type of every field of every input anew, which is a quarter of what a submission takes.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import Any, Final

import strawberry
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
"""Makes of a value that is there what the field of an input holds."""


class _UnknownTypeError(Exception):
    """A kind of type that only Strawberry knows how to build."""


def compile_inputs(schema: strawberry.Schema) -> None:
    """Have the input types of a schema built so. What comes of a value is what Strawberry would make of it; a type
    with a field of a kind that is not known here is left to Strawberry."""
    compiler = _Compiler(schema)
    for concrete in tuple(schema.schema_converter.type_map.values()):
        definition = concrete.definition
        if isinstance(definition, StrawberryObjectDefinition) and definition.is_input and definition.from_input is None:
            try:
                definition.from_input = compiler.builder(definition)
            except _UnknownTypeError:
                continue


class _Compiler:
    def __init__(self, schema: strawberry.Schema) -> None:
        self._scalars: Final = schema.schema_converter.scalar_registry
        self._config: Final = schema.config

    def builder(self, definition: StrawberryObjectDefinition) -> Callable[[type, Mapping[str, Any], InputContext], Any]:
        """What makes an input of its coerced value."""
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
            given: dict[str, Any] = dict(unset)
            for name, python_name, convert in fields:
                if name in value:
                    found = value[name]
                    is_plain = found is None or found is UNSET
                    given[python_name] = found if convert is None or is_plain else convert(found, context)
            return kind(**given)

        return build

    def _conversion(self, type_: Any) -> Conversion | None:
        """None = the value is taken as it is."""
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
    """Whether the nested type is compiled is known once all are: they may hold each other."""

    def convert(value: Any, context: InputContext) -> Any:
        build = definition.from_input
        return context.convert(value, type_) if build is None else build(definition.origin, value, context)

    return convert


def _listed(convert: Conversion | None) -> Conversion:
    """Strawberry copies lists even of plain values: the default of a field is the same for all requests."""
    if convert is None:
        return lambda values, context: list(values)  # noqa: ARG005 # one interface
    return lambda values, context: [
        value if value is None or value is UNSET else convert(value, context) for value in values
    ]
