"""Input builders give the same values as Strawberry."""

from typing import Any

import pytest
import strawberry
from graphql import (
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLInputType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLScalarType,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from strawberry.types.arguments import convert_argument

from aliquot.api.graphql.inputs import compile_inputs
from aliquot_schema.graphql.schema import build_schema

SCHEMA = build_schema(strawberry.Schema)
NAMES = sorted(name for name, kind in SCHEMA._schema.type_map.items() if isinstance(kind, GraphQLInputObjectType))
DEPTH_MAX = 3


def coerced(kind: GraphQLInputType, *, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values as coerced by graphql-core."""
    if isinstance(kind, GraphQLNonNull):
        return coerced(kind.of_type, depth=depth)
    if isinstance(kind, GraphQLList):
        return st.lists(coerced(kind.of_type, depth=depth), max_size=2) if depth < DEPTH_MAX else st.just([])
    if isinstance(kind, GraphQLEnumType):
        return st.sampled_from([value.value for value in kind.values.values()])
    if isinstance(kind, GraphQLScalarType):
        return st.integers(0, 9) | st.text(max_size=3)
    assert isinstance(kind, GraphQLInputObjectType)
    needed, more = {}, {}
    for name, field in kind.fields.items():
        is_needed = isinstance(field.type, GraphQLNonNull)
        value = coerced(field.type, depth=depth + 1)
        (needed if is_needed else more)[name] = value if is_needed else st.none() | value
    return st.fixed_dictionaries(needed, optional=more if depth < DEPTH_MAX else {})


def converted(name: str, value: Any) -> Any:
    definition = SCHEMA.schema_converter.type_map[name].definition
    return convert_argument(value, definition.origin, SCHEMA.schema_converter.scalar_registry, SCHEMA.config)


@settings(deadline=None, max_examples=25)
@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_compiled_inputs_equal_those_of_strawberry(name: str, data: st.DataObject) -> None:
    value = data.draw(coerced(SCHEMA._schema.type_map[name]))
    definitions = [SCHEMA.schema_converter.type_map[other].definition for other in NAMES]
    with pytest.MonkeyPatch.context() as patch:
        for definition in definitions:
            patch.setattr(definition, "from_input", None)
        theirs = converted(name, value)
        compile_inputs(SCHEMA)
        assert all(definition.from_input is not None for definition in definitions)
        assert converted(name, value) == theirs


def test_unsupported_input_types_are_left_to_strawberry() -> None:
    @strawberry.input
    class Odd:
        maybe: strawberry.Maybe[int]

    @strawberry.input
    class Even:
        numbers: list[int]
        odd: Odd | None = None

    @strawberry.type
    class Query:
        @strawberry.field
        def total(self, even: Even) -> int:
            assert even.odd is None or even.odd.maybe is not None
            return sum(even.numbers)

    schema = strawberry.Schema(Query)
    compile_inputs(schema)
    found = {name: schema.schema_converter.type_map[name].definition.from_input for name in ("Odd", "Even")}
    assert found["Odd"] is None
    assert found["Even"] is not None
    answer = schema.execute_sync("{ total(even: {numbers: [1, 2], odd: {maybe: 3}}) }")
    assert (answer.data, answer.errors) == ({"total": 3}, None)
