"""History over HTTP of a server with the demo cluster: kept over a restart, query cost, and refusals."""

import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import strawberry
from graphql import parse

from aliquot.api.graphql.query_cost import weigh
from aliquot_schema.graphql.schema import build_schema
from rest_server import rest_server

SCHEMA = build_schema(strawberry.Schema)._schema
SERIES = "started_at step points warning series { metric unit agent_id device_id values maximum }"
DEVICES = f"""query ($id: String!, $points: Int) {{ device_history(agent_id: $id, points: $points) {{ {SERIES} }} }}"""
WAIT_S = 120
POLL_S = 0.1


def asked(client: httpx.Client, query: str, **variables: Any) -> dict[str, Any]:
    answer: dict[str, Any] = client.post("/graphql", json={"query": query, "variables": variables}).json()
    return answer


def measured(client: httpx.Client) -> dict[str, Any]:
    """The first agent's history, when available."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        found: dict[str, Any] = asked(client, DEVICES, id="demo-1", points=2000)["data"]["device_history"]
        if found["series"]:
            return found
        time.sleep(POLL_S)
    raise AssertionError("nothing was measured")


def test_measured_history_is_kept_across_a_restart(tmp_path: Path) -> None:
    with rest_server(tmp_path) as server, server.client() as client:
        found = measured(client)
        assert found["warning"] is None
        assert {(one["metric"], one["unit"]) for one in found["series"]} == {
            ("utilization", "percent"),
            ("memory_used", "bytes"),
            ("temperature", "celsius"),
            ("power", "watts"),
            ("held", "milli"),
        }
        assert len({one["device_id"] for one in found["series"]}) == 8
        assert all(len(one["values"]) == len(one["maximum"]) == found["points"] for one in found["series"])
        _refused(client)
        queue = asked(client, f"{{ queue_history {{ {SERIES} }} }}")["data"]["queue_history"]
        assert {"pending", "wait_mean", "gpus_held"} <= {one["metric"] for one in queue["series"]}
        usage = asked(client, "{ usage_history(by: project) { step points series { name } } }")["data"]["usage_history"]
        assert usage["series"] == []
    with rest_server(tmp_path, "--no-local-agents") as server, server.client() as client:
        again = measured(client)
        assert [value for value in again["series"][0]["values"] if value is not None]


def _refused(client: httpx.Client) -> None:
    for query, code in (
        ('{ device_history(agent_id: "x") { step } }', "not_found"),
        ('{ device_history(agent_id: "demo-1", points: 2001) { step } }', "invalid_request"),
        ('{ queue_history(since: "2026-01-02T00:00:00Z", until: "2026-01-01T00:00:00Z") { step } }', "invalid_request"),
        ("{ usage_history(step: 61) { step } }", "invalid_request"),
        ('{ session_history(id: "ses_x") { step } }', "not_found"),
    ):
        [error] = asked(client, query)["errors"]
        assert error["extensions"]["code"] == code, query


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("{ queue_history(points: 50) { step series { values } } }", 1 + 5 * 3 + 50 * 3),
        ("{ queue_history { step } }", 1 + 30 + 300 * 3),
        ("{ queue_history(points: 99999) { step } }", 1 + 200 + 2000 * 3),
        ("{ queue_history(points: 3) { step } }", 1 + 1 + 3 * 3),
        ("query ($n: Int!) { queue_history(points: $n) { step } }", 1 + 200 + 2000 * 3),
        ("{ usage_history(step: 3600) { step } }", 1 + 200 + 2000 * 3),
        ("{ usage_history { step } }", 1 + 200 + 2000 * 3),
    ],
)
def test_many_points_cost_more(text: str, cost: int) -> None:
    [(_, found)] = weigh(parse(text), SCHEMA)
    assert found.cost == cost
