"""The examples that GraphiQL opens with: each of them is run against a real server, as it stands there."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from aliquot.cli.main_job.cluster_view import until_joined
from aliquot.cli.main_job.own_server import OwnServer
from aliquot.client import Client
from e2e_sessions import submit, until_state

pytestmark = pytest.mark.anyio

SOURCE: Final = Path(__file__).parents[2] / "server" / "dashboard" / "src" / "graphiql" / "examples.ts"
EXAMPLE: Final = re.compile(r'title: "([^"]+)",\s+query: `([^`]+)`,(?:\s+variables: `([^`]+)`,)?')
FOUND: Final = EXAMPLE.findall(SOURCE.read_text(encoding="utf-8"))
WAIT_S: Final = 60.0
SEED: Final = "query ($agent_id: String!) { agent(agent_id: $agent_id) { gpu_alloc_map } }"


@pytest.fixture(scope="module")
async def alone(anyio_backend: str) -> AsyncIterator[OwnServer]:
    """The demo cluster; it needs no browser."""
    async with OwnServer("--demo") as server:
        async with server.client() as client:
            await until_joined(client, agents=2)
        yield server


def test_there_is_one_of_every_kind_and_all_are_found() -> None:
    text = SOURCE.read_text(encoding="utf-8")
    assert len(FOUND) == text.count("title: ") - 1, "the one that is left over is the type's"
    words = " ".join(query for _, query, _ in FOUND)
    wanted = ("gpu_alloc_map", "_history", "alerts", "session_updates", "device_updates", "session_logs", "mutation")
    assert [word for word in wanted if word not in words] == []
    assert _bare(SEED) in _bare(FOUND[0][1].replace("query AllocMap", "query ")), "the first is the seed query"


@pytest.mark.parametrize(("title", "query", "variables"), FOUND, ids=[title for title, _, _ in FOUND])
async def test_an_example_runs(alone: OwnServer, title: str, query: str, variables: str) -> None:
    async with alone.client() as client:
        runs = await submit(client, "echo hello; sleep 1000", {"cuda.device": "1"}, name="for-an-example")
        await until_state(client, runs, "running")
        given: dict[str, Any] = orjson.loads(variables.replace("ses_...", runs)) if variables else {}
        answer = await _first(client, query, given)
        assert answer, title
        assert "message" not in next(iter(answer.values())), "an error that was expected"
        if title != "cancel":
            await client.change(
                "mutation ($id: ID!) { cancel_session(input: { id: $id }) { __typename ... on Error { message } } }",
                {"id": runs},
            )


async def _first(client: Client, query: str, variables: dict[str, Any]) -> dict[str, Any]:
    """What it answers; of a subscription, the first that it tells. One that tells only of changes is given one."""
    if "\nsubscription" not in query:
        return await client.execute(query, variables)
    async with asyncio.timeout(WAIT_S), aclosing(client.subscribe(query, variables)) as told:
        telling = asyncio.create_task(anext(told))
        while not (await asyncio.wait([telling], timeout=0.5))[0]:
            await submit(client, "true", {"cpu": "1"}, name="a-change")
        return await telling


def _bare(text: str) -> str:
    return re.sub(r"#[^\n]*|\s+", "", text)
