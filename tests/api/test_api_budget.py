"""The query budget: the cost limit of one operation, and cheap cost computation."""

import time
from typing import Any

import pytest
import strawberry
from graphql import get_introspection_query, parse
from graphql.validation import validate
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.api.graphql import documents as documents_module
from aliquot.api.graphql.documents import DOCUMENTS_KEPT, TEXT_KEPT_MAX, Documents
from aliquot.api.graphql.query_cost import Weight, weigh
from aliquot.api.limits import Limits
from aliquot_schema.graphql.schema import build_schema
from api_server import ApiServer, api_server, receive, sign_in, subscribe

SCHEMA = build_schema(strawberry.Schema)._schema

DEEP = "fragment f on __Type { name kind fields { name args { name type { name kind ofType { name kind } } } } }"


def weight(text: str) -> Weight:
    [(_, found)] = weigh(parse(text), SCHEMA)
    return found


def nested_fragments(levels: int) -> str:
    """Each level spreads the one below twice: 2 ** levels fields if every spread is visited."""
    spreads = [f"fragment f{n} on Query {{ ...f{n + 1} ...f{n + 1} }}" for n in range(levels)]
    return "\n".join(["{ ...f0 }", *spreads, f"fragment f{levels} on Query {{ __typename }}"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{ agent(agent_id: "a") { id } }', Weight(2, 0, 2)),
        ('{ x: agent(agent_id: "a") { y: id id } }', Weight(2, 2, 3)),
        ("{ queue { total_count } }", Weight(2, 0, 21)),
        ("{ queue(first: 5) { edges { cursor } } }", Weight(3, 0, 11)),
        ("query ($n: Int!) { queue(first: $n) { total_count } }", Weight(2, 0, 101)),
        ("{ queue(first: 99999999999999999999) { total_count } }", Weight(2, 0, 101)),
        ("{ queue(first: 0) { total_count } }", Weight(2, 0, 2)),
        ("{ ...f ...f } fragment f on Query { queue(first: 2) { revision } }", Weight(2, 0, 6)),
        ("{ ... on Query { queue(first: 2) { revision } } }", Weight(2, 0, 3)),
        ("{ ...a } fragment a on Query { ...b } fragment b on Query { ...a __typename }", Weight(1, 0, 1)),
        ("{ nothing(first: 50) { of { this } } ...gone }", Weight(3, 0, 3)),
    ],
)
def test_operation_costs(text: str, expected: Weight) -> None:
    assert weight(text) == expected


PAGE = "query P($first: Int! = 7) { queue(first: $first) { total_count } } query Q { queue { total_count } }"


@pytest.mark.parametrize(
    ("name", "variables", "cost"),
    [
        ("P", {"first": 3}, 4),
        ("P", {}, 8),
        ("P", {"first": 0}, 2),
        ("P", {"first": -5}, 2),
        ("P", {"first": 10**30}, 101),
        ("P", {"first": "3"}, 101),
        ("P", {"first": None}, 101),
        ("Q", {"first": 3}, 21),
    ],
)
def test_the_rate_limit_counts_the_page_size_that_was_sent(name: str, variables: dict[str, object], cost: int) -> None:
    document = Documents(Limits()).prepare(PAGE, SCHEMA)
    assert [document.cost(name, variables, SCHEMA) for _ in range(2)] == [cost, cost]
    assert document.costs["P"] == 101  # the limit of one operation depends on its text alone


def test_every_operation_of_a_document_has_a_cost() -> None:
    document = parse("query A { queue { revision } } query B { __typename }")
    assert [found.cost for _, found in weigh(document, SCHEMA)] == [21, 1]


def test_sixty_levels_of_fragments_are_weighed_in_one_pass() -> None:
    assert weight(nested_fragments(60)).cost == 2**60


def fields(parts: list[str]) -> str:
    return " ".join(f"queue(first: 3) {{ edges {{ node {{ {part} }} }} }}" for part in parts)


@settings(deadline=None)
@given(st.recursive(st.just("__typename"), lambda inner: st.lists(inner, min_size=1, max_size=4).map(fields)))
def test_a_fragment_costs_as_much_as_its_inline_text(selection: str) -> None:
    inline = weight(f"{{ {selection} }}")
    assert weight(f"{{ ...f }} fragment f on Query {{ {selection} }}") == inline
    assert weight(f"{{ ... {{ {selection} }} }}") == inline


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (nested_fragments(60), "cost"),
        ("{ " + " ".join(f"a{n}: __typename" for n in range(200)) + " }", "aliases"),
        ("{ " + "__typename " * 100 + "}", "comparisons"),
        ("{ __typename } fragment unused on Query { " + "__typename " * 100 + "}", "comparisons"),
        ("{ queue { edges { node { " + "session { " * 20 + "id" + " }" * 24, "depth"),
        (
            "{ " + " ".join(f"a{n}: sessions(first: 100) {{ edges {{ node {{ id }} }} }}" for n in range(90)) + " }",
            "cost",
        ),
        ("{ " + " ".join(f"a{n}: __schema {{ types {{ ...f }} }}" for n in range(90)) + " }" + DEEP, "cost"),
    ],
)
@pytest.mark.anyio
async def test_operations_over_budget_are_refused_before_execution(server: ApiServer, text: str, what: str) -> None:
    started = time.process_time()
    body = await server.post(text)
    assert time.process_time() - started < 5
    assert "data" not in body
    assert what in {error["extensions"]["budget"] for error in body["errors"]}
    assert {error["extensions"]["code"] for error in body["errors"]} == {"budget_exceeded"}


@pytest.mark.anyio
async def test_the_token_limit_is_checked_before_parsing(server: ApiServer) -> None:
    body = await server.post("{ " + "a " * 10_001 + "}")
    assert "at most 2000 tokens" in body["errors"][0]["message"]
    assert body["errors"][0]["extensions"] == {"code": "budget_exceeded", "budget": "tokens", "limit": 2000}


@pytest.mark.parametrize("text", ["{a(b:" + "[" * 4000 + "]" * 4000 + ")}", "{a" * 3000, "{a(b:{c:" + "{c:" * 2000])
@pytest.mark.anyio
async def test_too_deeply_nested_queries_return_an_error(server: ApiServer, text: str) -> None:
    body = await server.post(text)
    assert body["errors"]
    assert "data" not in body


@pytest.mark.anyio
async def test_a_query_longer_than_the_limit_is_refused() -> None:
    async with api_server(query_characters=1000) as server:
        body = await server.post("{ __typename }" + " " * 1000)
        assert body["errors"][0]["extensions"]["code"] == "budget_exceeded"


@pytest.mark.anyio
async def test_introspection_fits_the_budget(server: ApiServer) -> None:
    assert (await server.post(get_introspection_query()))["extensions"]["cost"] < 7_500


@pytest.mark.anyio
async def test_introspection_can_be_switched_off() -> None:
    async with api_server(introspection=False) as server:
        for query in (get_introspection_query(), '{ __type(name: "Session") { name } }'):
            (error, *_) = (await server.post(query))["errors"]
            assert "introspection has been disabled" in error["message"]
        assert (await server.post("{ __typename }"))["data"] == {"__typename": "Query"}


@pytest.mark.anyio
async def test_introspection_in_circles_is_refused(server: ApiServer) -> None:
    circles = "fields { type { " * 5 + "name" + " } }" * 5
    body = await server.post(f"{{ __schema {{ types {{ {circles} }} }} }}")
    assert "introspection depth" in body["errors"][0]["message"]


def test_parsed_queries_are_cached_and_the_oldest_is_evicted() -> None:
    documents = Documents(Limits())
    first = documents.prepare("{ __typename }", SCHEMA)
    assert documents.prepare("{ __typename }", SCHEMA) is first
    for number in range(DOCUMENTS_KEPT):
        documents.prepare(f"{{ a{number}: __typename }}", SCHEMA)
    assert documents.prepare("{ __typename }", SCHEMA) is not first


@pytest.mark.anyio
async def test_a_repeated_query_is_validated_once(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    validated: list[object] = []

    def counting(*given: Any, **options: Any) -> Any:
        validated.append(given)
        return validate(*given, **options)

    monkeypatch.setattr(documents_module, "validate", counting)
    for _ in range(3):
        await server.data("{ agents { revision pageInfo { hasNextPage } } }")
    async with server.connect() as socket:
        await sign_in(socket)
        await subscribe(socket, "{ agents { revision pageInfo { hasNextPage } } }")
        assert (await receive(socket))["type"] == "next"
    assert len(validated) == 2  # by the rules, and for deprecated names


def test_a_long_query_is_not_cached() -> None:
    documents = Documents(Limits())
    text = "{ __typename }" + "#" * TEXT_KEPT_MAX
    assert documents.prepare(text, SCHEMA) is not documents.prepare(text, SCHEMA)
