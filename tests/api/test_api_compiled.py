"""The compiled executor answers as graphql-core does, byte for byte, for values of every kind."""

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import orjson
import pytest
import strawberry
from graphql import DocumentNode, ExecutionResult, execute, parse, validate
from graphql.execution import Executor, MiddlewareManager
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis_graphql import queries
from strawberry.execution import optimized_is_awaitable
from strawberry.schema.schema import StrawberryGraphQLCoreExecutionContext

from aliquot.api.graphql import compiler
from aliquot.api.graphql.executor import CompiledExecutor, compiled_executor
from api_documents import various
from api_reading import Readings, reading_schema

SCHEMA = reading_schema()
CORE = SCHEMA._schema
SDL = SCHEMA.as_str()
WALKED_MAX = 0.45
"""At most this share of fields is executed by graphql-core in the compiled rounds."""
ROUNDS = 3
"""The first does not compile, the second does, the third runs compiled."""


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
    """Execute as Strawberry does, and return the answer's bytes."""

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


@pytest.mark.parametrize("fields", [["agents", "update"], ["sessions", "queue", "session"], ["groups", "preview"]])
def test_random_queries_are_answered_as_graphql_core_does(runner: asyncio.Runner, fields: list[str]) -> None:
    _compare(runner, fields, examples=130)


def test_random_queries_of_unions_and_interfaces_are_answered_as_graphql_core_does(runner: asyncio.Runner) -> None:
    _compare(runner, ["answers", "failures"], examples=130)


def _compare(runner: asyncio.Runner, fields: list[str], *, examples: int) -> None:
    compared: Counter[str] = Counter()

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],  # a query is short enough without shrinking
    )
    @given(
        text=queries(SDL, fields=fields),
        seed=st.integers(0, 2**32),
        share=st.sampled_from([0.0, 0.0, 0.01, 0.05, 0.3]),
        conditions=st.fixed_dictionaries({}, optional={"yes": st.booleans(), "no": st.booleans()}),
    )
    def compare(text: str, seed: int, share: float, conditions: dict[str, bool]) -> None:
        document = parse(various(text, CORE, Random(seed)))
        assert validate(CORE, document) == []
        reference = _counting(StrawberryGraphQLCoreExecutionContext, compared, "fields")
        expected = answer(runner, document, reference, seed=seed, share=share, **conditions)
        executor = compiled_executor()
        for _ in range(ROUNDS - 1):
            assert answer(runner, document, executor, seed=seed, share=share, **conditions) == expected
        last = _counting(executor, compared, "walked")
        assert answer(runner, document, last, seed=seed, share=share, **conditions) == expected
        compared["queries"] += 1
        compared["errors"] += b'"errors":[{' in expected

    compare()
    # Comparing graphql-core with itself would prove nothing.
    assert compared["queries"] >= examples
    assert compared["errors"] >= 8
    assert compared["walked"] <= WALKED_MAX * compared["fields"], compared


def _counting(executor: type[Executor[Any]], found: Counter[str], name: str) -> type[Executor[Any]]:
    """The same executor, counting the fields that it executes one by one."""

    class Counting(executor):  # type: ignore[misc, valid-type]  # a class parameter
        def execute_field(self, *args: Any) -> Any:
            found[name] += 1
            return super().execute_field(*args)

    return Counting


WHOLE = """query ($all: Boolean! = true) {
  agents { edges { node { id ...Devices } } pageInfo { hasNextPage } revision }
  failures { __typename ... on UnknownSlot { slot known } ... on Error { text: message } }
}
fragment Devices on Agent { devices @include(if: $all) { id memory_bytes holders { share since } } }"""


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The fields graphql-core executed, one by one."""
    found: list[str] = []
    execute_field = CompiledExecutor.execute_field

    def noting(self: Any, parent_type: Any, source: Any, details: Any, path: Any, deferred: Any) -> Any:
        found.append(f"{parent_type.name}.{details[0].node.name.value}")
        return execute_field(self, parent_type, source, details, path, deferred)

    monkeypatch.setattr(CompiledExecutor, "execute_field", noting)
    return found


def test_the_third_execution_resolves_only_fields_with_resolvers(runner: asyncio.Runner, walked: list[str]) -> None:
    document, executor = parse(WHOLE), compiled_executor()
    for _ in range(2):
        answer(runner, document, executor)
    walked.clear()
    # The last of `failures` is no error, so graphql-core runs through that list, and finds each item compiled.
    assert answer(runner, document, executor) == answer(runner, document)
    assert walked == ["Query.agents", "Query.failures"]


def test_only_the_field_with_an_unusual_value_is_executed_by_graphql_core(
    runner: asyncio.Runner, walked: list[str]
) -> None:
    document, executor = parse("{ groups { id version waits { reason } } }"), compiled_executor()
    answers = {seed: answer(runner, document, seed=seed, share=0.05) for seed in range(100)}
    # Which seed makes which fields odd changes with every new field of a read model.
    seed, expected = next(pair for pair in answers.items() if pair[1].count(b'"message"') == 1)
    for _ in range(3):
        walked.clear()
        assert answer(runner, document, seed=seed, share=0.05) == expected
        assert answer(runner, document, executor, seed=seed, share=0.05) == expected
    assert walked.count("Session.id") == 1


def test_each_value_of_an_include_condition_has_its_own_plan(runner: asyncio.Runner) -> None:
    document, executor = parse(WHOLE), compiled_executor()
    for all_ in (True, False, True, False, True, False):
        assert answer(runner, document, executor, all=all_) == answer(runner, document, all=all_)


def test_many_include_combinations_are_answered_correctly(runner: asyncio.Runner) -> None:
    names = "abcdef"
    fields = " ".join(f"{name}: version @include(if: ${name})" for name in names)
    document = parse(f"query ({' '.join(f'${name}: Boolean!' for name in names)}) {{ groups {{ id {fields} }} }}")
    executor = compiled_executor()
    for number in range(2 ** len(names)):
        chosen = {name: bool(number >> at & 1) for at, name in enumerate(names)}
        for _ in range(2):
            assert answer(runner, document, executor, **chosen) == answer(runner, document, **chosen)


def test_plans_are_freed_with_their_documents(runner: asyncio.Runner) -> None:
    executor = compiled_executor()
    for _ in range(10):
        document = parse(WHOLE)
        for _ in range(2):
            answer(runner, document, executor)
    del document
    gc.collect()
    assert len(executor.plans) == 0


def test_an_executor_is_freed_after_its_answer_without_garbage_collection(runner: asyncio.Runner) -> None:
    executor, document = compiled_executor(), parse("{ __typename }")
    gc.collect()
    gc.disable()
    try:
        for _ in range(ROUNDS):
            answer(runner, document, executor)
        assert not [each for each in gc.get_objects() if type(each) is executor]
    finally:
        gc.enable()


def test_selections_over_the_field_limit_are_not_compiled(
    runner: asyncio.Runner, walked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "FIELDS_MAX", 3)
    document, executor = (
        parse("{ preview { queue_position } session { id version attempt owner } }"),
        compiled_executor(),
    )
    for _ in range(3):
        walked.clear()
        assert answer(runner, document, executor) == answer(runner, document)
    assert "Session.owner" in walked
    assert "SessionPreview.queue_position" not in walked


def test_fields_with_resolvers_are_never_compiled(runner: asyncio.Runner) -> None:
    calls: list[str] = []

    @strawberry.type
    class Part:
        name: str

        @strawberry.field
        def loud(self) -> str:
            calls.append(self.name)
            return self.name.upper()

    @strawberry.type
    class Query:
        @strawberry.field
        def parts(self) -> list[Part]:
            return [Part(name="a"), Part(name="b")]

    schema = strawberry.Schema(Query, execution_context_class=compiled_executor())
    for _ in range(3):
        calls.clear()
        result = runner.run(schema.execute("{ parts { name loud } }"))
        assert result.data == {"parts": [{"name": "a", "loud": "A"}, {"name": "b", "loud": "B"}]}
        assert calls == ["a", "b"]
