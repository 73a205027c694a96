"""Ambiguous GraphQL documents, costly ones, and oversized numbers."""

from typing import Any

import pytest

from api_server import ApiServer, Stage, on_stage, receive, send, sign_in
from process_attacks import costs_little

pytestmark = pytest.mark.anyio

SEVERAL = "query A { __typename } query B { b: __typename }"


async def asked(server: ApiServer, **body: Any) -> dict[str, Any]:
    response = await server.http.post("/graphql", json=body)
    answer: dict[str, Any] = response.json()
    return answer


async def test_several_operations_of_which_none_is_named_are_refused(server: ApiServer) -> None:
    answer = await costs_little(lambda number: asked(server, query=SEVERAL + " " * number))
    assert "data" not in answer
    [error] = answer["errors"]
    assert error["message"] == "The query has 2 operations (A, B); say in `operationName` which one to run."
    assert (await asked(server, query=SEVERAL, operationName="B"))["data"] == {"b": "Query"}
    assert (await asked(server, query="query A { __typename }"))["data"] == {"__typename": "Query"}


async def test_several_operations_without_an_operation_name_are_refused_over_a_socket(
    staged: tuple[Stage, int],
) -> None:
    stage, port = staged
    async with on_stage(stage, port) as server, server.connect() as socket:
        await sign_in(socket)
        several = "subscription A { events { __typename } } subscription B { events { __typename } }"

        async def subscribed(number: int) -> dict[str, Any]:
            payload = {"query": several + " " * number}
            await send(socket, {"id": str(number), "type": "subscribe", "payload": payload})
            answer: dict[str, Any] = await receive(socket)
            return answer

        answer = await costs_little(subscribed)
        assert answer["type"] == "error"
        assert "2 operations (A, B)" in answer["payload"][0]["message"]


@pytest.mark.parametrize("digits", [4301, 50_000, 200_000])
@pytest.mark.parametrize(
    "query",
    [
        "{ agents(first: %s) { revision } }",
        "{ agents(first: %s.5) { revision } }",
        "query($n: Int = %s) { __typename }",
    ],
)
async def test_a_number_too_long_to_be_read_is_refused_in_words(server: ApiServer, query: str, digits: int) -> None:
    answer = await costs_little(lambda number: asked(server, query=query % ("9" * digits) + " " * number))
    [error] = answer["errors"]
    assert error["extensions"]["code"] == "limit_exceeded"
    assert "digits; at most 4,300 are read" in error["message"]


async def test_a_long_string_of_digits_is_accepted(server: ApiServer) -> None:
    text = '{ agent(agent_id: "%s") { id } }' % ("9" * 5000)
    answer = await costs_little(lambda number: asked(server, query=text + " " * number))
    assert "digits" not in str(answer)


@pytest.mark.parametrize("what", ["queue_history(points: 1000)", "queue_history", "usage_history(by: user, step: 60)"])
async def test_many_history_queries_in_one_request_exceed_the_cost_limit(server: ApiServer, what: str) -> None:
    many = "{ " + " ".join(f"h{number}: {what} {{ started_at }}" for number in range(90)) + " }"
    [error] = (await costs_little(lambda number: asked(server, query=many + " " * number)))["errors"]
    assert error["extensions"]["budget"] == "cost"
    one = await asked(server, query=f"{{ {what} {{ started_at }} }}")
    assert "budget" not in str(one)


async def test_a_history_page_is_within_the_cost_limit(server: ApiServer) -> None:
    page = "query($p: Int!) { queue_history(points: $p) { started_at step points series { metric values maximum } } }"
    assert "budget" not in str(await asked(server, query=page, variables={"p": 240}))
