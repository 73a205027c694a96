"""The examples in GraphiQL's menu, each run unchanged against a real server."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from graphql import FieldNode, OperationDefinitionNode, OperationType, build_schema, parse

from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client
from aliquot_schema.identity.access import ROOTS
from aliquot_schema.identity.accounts import Role
from browser_examples import EXAMPLES, LOOKUP, ORDER, SOURCES, Example, filled
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio

SDL: Final = Path(__file__).parents[2] / "schema" / "schema.graphql"
WAIT_S: Final = 60.0
SEED: Final = "query ($agent_id: String!) { agent(agent_id: $agent_id) { gpu_alloc_map } }"
NAME: Final = "for-an-example"
ME: Final = "{ me { name } }"
CANCEL: Final = "mutation ($id: ID!) { cancel_session(input: { id: $id }) { __typename ... on Error { message } } }"
WITHOUT: Final = {
    "array_metrics": "it needs a job array whose tasks print metrics",
    "apply_tuning": "it needs a tuning that found a better policy",
    "backtest": "it needs a backtest; the page Backtest of the dashboard starts one and shows it",
    "cancel_backtest": "it needs a backtest that runs",
    "delete_project": "it needs a project that nothing uses, and deletes it",
    "delete_session_template": "it needs a template of a project",
    "extend_reservation": "it needs a booking of the caller",
    "import_reservations": "it needs a file",
    "give_back_reservation": "it needs a booking of the caller",
    "keep_session": "it needs a session that does not use its GPUs",
    "orchestrator_stop": "nobody's session would start any more until somebody starts it again",
    "release_lost_agent": "it needs an agent that is lost, and gives its devices away",
    "reservation_effect": "it needs times in the next year, which an example cannot know",
    "reserve": "it needs times in the next year, which an example cannot know",
    "revoke_api_key": "the key of the example ends by itself; a filled-in id would be that of a key in use",
    "save_session_template": "it needs a project that the caller is a member of",
    "send_test_notice": "it needs a receiver in the server's settings, which the demo cluster has not",
    **dict.fromkeys(("statement", "statement_document", "statements"), "it needs prices in the policy"),
    "start_backtest": "it takes the processor for minutes on a long record",
    "start_tuning": "it takes the processor for minutes on a long record",
}
"""Fields that no example has, and why."""


@pytest.fixture(scope="module")
async def alone(anyio_backend: str) -> AsyncIterator[OwnServer]:
    """The demo cluster, without a browser."""
    async with OwnServer("--demo") as server:
        async with server.client() as client:
            await until_joined(client, agents=2)
        yield server


def test_all_graphiql_examples_are_found_and_have_distinct_titles() -> None:
    assert len(EXAMPLES) == sum(text.count("title: ") for text in SOURCES.values())
    assert sorted(ORDER) == sorted(SOURCES)
    assert len({example.title for example in EXAMPLES}) == len(EXAMPLES)
    assert all(example.query.startswith("# ") for example in EXAMPLES), "each says what it does"
    assert _bare(SEED) in _bare(EXAMPLES[0].query.replace("query AllocMap", "query ")), "the first is the seed query"


def test_every_root_field_is_used_by_an_example() -> None:
    schema = build_schema(SDL.read_text(encoding="utf-8"))
    shown = {field for example in EXAMPLES for field in _fields(example.query)}
    offered = {
        (operation, name)
        for operation in OperationType
        if (root := schema.get_root_type(operation)) is not None
        for name in root.fields
    }
    assert {name for _, name in offered - shown} == set(WITHOUT)


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.title for example in EXAMPLES])
def test_an_example_states_the_role_it_requires(example: Example) -> None:
    """A query with one refused field returns nothing, so examples for all roles use no restricted fields."""
    (least,) = {
        max(Role.USER, ROOTS[f"{operation.value.capitalize()}.{name}"].least)
        for operation, name in _fields(example.query)
    }
    said = [f"# For {least.name.lower()}s."] if least > Role.USER else []
    assert [line for line in example.query.splitlines() if line.startswith("# For ")] == said


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.title for example in EXAMPLES])
async def test_an_example_runs(alone: OwnServer, example: Example) -> None:
    async with alone.client() as client, _sessions(client, are_needed=" session>" in example.variables):
        given = filled(example.variables, await _found(client)) if example.variables else {}
        answer = await _first(client, example.query, given)
        assert answer
        refused = [found for found in answer.values() if isinstance(found, dict) and "message" in found]
        assert refused == [], "an error that was expected"


async def _found(client: Client) -> dict[str, Any]:
    """Values for examples."""
    me = (await client.execute(ME))["me"]["name"]
    return await client.execute(LOOKUP, {"me": me, "gpus": True, "rules": True})


@asynccontextmanager
async def _sessions(client: Client, *, are_needed: bool) -> AsyncIterator[None]:
    """An ended session, a pending one, and, as the newest, a running one, for the examples."""
    if not are_needed:
        yield
        return
    ends = await submit(client, "true", {"cpu": "1"}, name=NAME)
    await until_state(client, ends, "completed")
    waits = await submit(client, "true", {"cpu": "1"}, held=True, name=NAME)
    runs = await submit(client, "echo hello; sleep 1000", {"cuda.device": "1"}, name=NAME, time_limit=3600)
    await until_state(client, runs, "running")
    yield
    for session_id in (waits, runs):
        # The released one may have ended meanwhile: then it answers with a conflict.
        await client.execute(CANCEL, {"id": session_id})


async def _first(client: Client, query: str, variables: dict[str, Any]) -> dict[str, Any]:
    """The result; of a subscription, the first message. One that sends only changes gets a change."""
    if "\nsubscription" not in query:
        return await client.execute(query, variables)
    async with asyncio.timeout(WAIT_S), aclosing(client.subscribe(query, variables)) as told:
        telling = asyncio.create_task(anext(told))
        while not (await asyncio.wait([telling], timeout=0.5))[0]:
            await submit(client, "true", {"cpu": "1"}, name="a-change")
        return await telling


def _fields(query: str) -> list[tuple[OperationType, str]]:
    return [
        (operation.operation, field.name.value)
        for operation in parse(query).definitions
        if isinstance(operation, OperationDefinitionNode)
        for field in operation.selection_set.selections
        if isinstance(field, FieldNode)
    ]


def _bare(text: str) -> str:
    return re.sub(r"#[^\n]*|\s+", "", text)
