"""Every mutation leaves an event with its actor, its request, and the values before and after."""

import os
import pwd
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from aliquot.cli import main
from authorisation_queries import operation, root_fields
from ledger_mutations import AGENT, BACKTEST, CALLS, ELSEWHERE, KEY, SESSION, Call
from rest_server import rest_server

RECEIVER = '[[receivers]]\nname = "hook"\nkind = "webhook"\nurl = "http://127.0.0.1:9/"\n'
AUDIT = "{ audit(first: 30) { edges { node { at actor kind request_id fields { name before after } } } } }"
NEWEST = """{ sessions(first: 1) { edges { node { id } } } api_keys(user: "ada") { id }
    agents(first: 1) { edges { node { id } } } backtests { id } }"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its data."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def asked(folder: Path) -> Iterator[httpx.Client]:
    """A separate server: every mutation is called on it."""
    settings = folder / "aliquot.toml"
    settings.write_text(RECEIVER)
    with rest_server(folder / "data", settings={"ALIQUOT_CONFIG": str(settings)}) as server, server.client() as client:
        yield client


def answer(client: httpx.Client, query: str, variables: dict[str, Any] | None = None) -> tuple[dict[str, Any], str]:
    """(data, the request id)."""
    response = client.post("/graphql", json={"query": query, "variables": variables or {}})
    body = response.json()
    assert "errors" not in body, body
    return body["data"], response.headers["x-request-id"]


def places(client: httpx.Client) -> dict[str, str]:
    """The newest ids, by placeholder in calls."""
    data, _ = answer(client, NEWEST)
    nodes = {name: [edge["node"]["id"] for edge in data[name]["edges"]] for name in ("sessions", "agents")}
    found = {SESSION: nodes["sessions"], KEY: [key["id"] for key in data["api_keys"]], AGENT: nodes["agents"]}
    found[BACKTEST] = [job["id"] for job in data["backtests"]]
    return {place: ids[-1] for place, ids in found.items() if ids}


def filled(given: Any, found: dict[str, str]) -> Any:
    if isinstance(given, dict):
        return {name: filled(value, found) for name, value in given.items()}
    if isinstance(given, list):
        return [filled(value, found) for value in given]
    return found.get(given, given) if isinstance(given, str) else given


def test_every_mutation_is_called_here_or_listed_with_a_reason() -> None:
    mutations = {name.partition(".")[2] for name in root_fields() if name.startswith("Mutation.")}
    called = [call.mutation for call in CALLS]
    assert sorted([*called, *ELSEWHERE]) == sorted(mutations)


@pytest.mark.parametrize("call", CALLS, ids=[call.mutation for call in CALLS])
def test_a_mutation_leaves_an_event_with_actor_and_request(asked: httpx.Client, call: Call) -> None:
    """In the order of the table: calls depend on earlier ones."""
    query, variables = operation(f"Mutation.{call.mutation}", filled(dict(call.given), places(asked)))
    data, request_id = answer(asked, query, variables)
    assert "code" not in data[call.mutation], data
    log, _ = answer(asked, AUDIT)
    mine = [edge["node"] for edge in log["audit"]["edges"] if edge["node"]["request_id"] == request_id]
    told = {node["kind"]: node for node in mine}
    assert call.leaves in told, (call.mutation, request_id, sorted(told))
    event = told[call.leaves]
    assert not event["actor"].startswith("system:")
    assert event["at"]
    assert event["fields"], "before and after"
    assert "hush" not in str(mine)


def test_an_agent_key_created_beside_a_running_server_is_recorded_by_the_server(
    asked: httpx.Client, folder: Path
) -> None:
    made = CliRunner().invoke(main, ["agent", "key", "create", "node-1", "--data-folder", str(folder / "data")])
    assert made.exit_code == 0, made.output
    query = '{ audit(filter: { kind: "action.agent_key_created" }) { edges { node { actor entity_id } } } }'
    deadline = time.monotonic() + 120
    while not (edges := answer(asked, query)[0]["audit"]["edges"]):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    actor = f"unix:{pwd.getpwuid(os.getuid()).pw_name}"
    assert [edge["node"] for edge in edges] == [{"actor": actor, "entity_id": "agent_key/node-1"}]
