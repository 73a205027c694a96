"""Odd values in each kind of field: compiled and uncompiled answers are byte-identical."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
import strawberry
from graphql import ExecutionResult, execute, parse
from strawberry.execution import optimized_is_awaitable
from strawberry.schema.config import StrawberryConfig
from strawberry.schema.schema import StrawberryGraphQLCoreExecutionContext

from aliquot.api.graphql.executor import compiled_executor
from aliquot_schema.graphql import errors
from aliquot_schema.graphql.enums import SessionState, SnakeNames
from aliquot_schema.graphql.scalars import SCALARS, AnyPriority, BigInt
from aliquot_schema.sessions import Priority
from api_odd_values import odd_values

USUAL: list[Any] = [
    "text",
    2**31 - 1,
    -(2**31),
    -(2**31) - 1,
    0.5,
    False,
    datetime(2026, 3, 1, tzinfo=UTC),
    Priority.HIGH,
    errors.Forbidden(code="forbidden", message="no"),
    SimpleNamespace(name="a part"),
    [1, 2],
    (1, None),
    ["running", SessionState.QUEUED],
    [SimpleNamespace(name="a part"), None],
]


@strawberry.type
class Part:
    name: str


@strawberry.type
class Cell:
    text: str
    text_or_none: str | None
    whole: int
    whole_or_none: int | None
    real: float
    real_or_none: float | None
    truth: bool
    id_: strawberry.ID
    big: BigInt
    moment: datetime
    moment_or_none: datetime | None
    state: SessionState
    state_or_none: SessionState | None
    priority: AnyPriority
    part: Part
    part_or_none: Part | None
    error: errors.Error
    error_or_none: errors.Error | None
    wholes: list[int]
    wholes_or_none: list[int | None] | None
    states: list[SessionState] | None
    parts: list[Part]
    parts_or_none: list[Part | None] | None


@strawberry.type
class Query:
    @strawberry.field
    def cells(self, info: strawberry.Info) -> list[Cell | None]:
        found: list[Cell | None] = [info.context]
        return found


SCHEMA = strawberry.Schema(
    Query,
    types=[errors.Forbidden],
    config=StrawberryConfig(name_converter=SnakeNames(), scalar_map=SCALARS),
)
FIELDS = [field.name for field in Cell.__strawberry_definition__.fields]  # type: ignore[attr-defined]  # Strawberry's
PARTS = ("name", "__typename", "name __typename")


@pytest.mark.parametrize("field", FIELDS)
def test_every_value_is_answered_as_graphql_core_does(field: str) -> None:
    for selection in _selections(field):
        for place in range(len(odd_values()) + len(USUAL)):
            document = parse(f"{{ cells {{ __typename {field}{selection} }} }}")
            expected = _answer(document, field, place, StrawberryGraphQLCoreExecutionContext)
            executor = compiled_executor()
            for _ in range(3):
                assert _answer(document, field, place, executor) == expected


def _selections(field: str) -> list[str]:
    if field.startswith("part"):
        return [f" {{ {part} }}" for part in PARTS]
    return [" { __typename }", " { message }"] if field.startswith("error") else [""]


def _answer(document: Any, field: str, place: int, executor: Any) -> bytes:
    value = [*odd_values(), *USUAL][place]
    result = execute(
        SCHEMA._schema,
        document,
        context_value=SimpleNamespace(**{field: value}),
        executor_class=executor,
        is_awaitable=optimized_is_awaitable,
    )
    assert isinstance(result, ExecutionResult)
    return orjson.dumps({"data": result.data, "errors": [error.formatted for error in result.errors or ()]})
