"""The compiled executor answers as graphql-core does, byte for byte, for values of every kind."""

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Any

import orjson
import pytest
from graphql import DocumentNode, ExecutionResult, execute, parse, validate
from graphql.execution import Executor, MiddlewareManager
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis_graphql import queries
from strawberry.execution import optimized_is_awaitable
from strawberry.schema.schema import StrawberryGraphQLCoreExecutionContext

from aliquot.api.execution.executor import compiled_executor
from api_documents import various
from api_reading import Readings, reading_schema

SCHEMA = reading_schema()
CORE = SCHEMA._schema
ROUNDS = 3
"""The first compiles nothing, the second compiles, the third is compiled."""


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as running:
        yield running


def answer(
    runner: asyncio.Runner,
    document: DocumentNode,
    executor: type[Executor[Any]] = StrawberryGraphQLCoreExecutionContext,
    *,
    seed: int = 0,
    share: float = 0.0,
    **variables: Any,
) -> bytes:
    """Execute as Strawberry does, and give the answer as it goes out."""

    async def run() -> ExecutionResult:
        result = execute(
            CORE,
            document,
            context_value=Readings(seed, share=share),
            variable_values=variables,
            middleware=MiddlewareManager(),
            executor_class=executor,
            is_awaitable=optimized_is_awaitable,
        )
        return result if isinstance(result, ExecutionResult) else await result

    result = runner.run(run())
    return orjson.dumps({"data": result.data, "errors": [error.formatted for error in result.errors or ()]})


@settings(
    max_examples=600,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    text=queries(SCHEMA.as_str()),
    seed=st.integers(0, 2**32),
    share=st.sampled_from([0.0, 0.0, 0.01, 0.05, 0.3]),
    conditions=st.fixed_dictionaries({}, optional={"yes": st.booleans(), "no": st.booleans()}),
)
def test_random_queries_are_answered_as_graphql_core_does(
    runner: asyncio.Runner, text: str, seed: int, share: float, conditions: dict[str, bool]
) -> None:
    document = parse(various(text, CORE, Random(seed)))
    assert validate(CORE, document) == []
    expected = answer(runner, document, seed=seed, share=share, **conditions)
    executor = compiled_executor()
    for _ in range(ROUNDS):
        assert answer(runner, document, executor, seed=seed, share=share, **conditions) == expected
