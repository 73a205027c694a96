"""Metrics from output: pattern matches, and limits on agent reports."""

import json
from typing import Any

import pytest

from aliquot_schema.metrics import expression
from api_server import ApiServer
from session_sockets import running_session

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("pattern", "line", "value", "step"),
    [
        ("at {step}: {value}", "at 7: 1.5e-3", "1.5e-3", "7"),
        ("loss {value}.", "loss 5.", "5", None),
        ("loss {value} {step}", "loss .5   12", ".5", "12"),
        ("{value}%", "now 12.5%", "12.5", None),
    ],
)
def test_patterns_find_numbers(pattern: str, line: str, value: str, step: str | None) -> None:
    found = expression(pattern).search(line)
    assert found is not None
    assert (found["value"], found.groupdict().get("step")) == (value, step)


@pytest.mark.parametrize(
    "series",
    [
        {"name": "../x"},
        {"name": "step"},
        {"steps": [1], "values": []},
        {"steps": [1] * 500, "values": [1.0] * 500},
        {"steps": [-1]},
        {"low": None},
        {"count": 2**70},
    ],
)
async def test_an_agent_that_lies_about_metrics_is_refused(server: ApiServer, series: dict[str, Any]) -> None:
    await running_session(server)
    whole = {"name": "a", "count": 1, "last": 1, "low": 1, "low_step": 0, "high": 1, "high_step": 0}
    told = {"series": [{**whole, "steps": [0], "values": [1], **series}]}
    server.streams.results = (json.dumps(told).encode(),)
    query = '{ session_metrics(id: "ses_1") { is_partial } }'
    answer = (await server.http.post("/graphql", json={"query": query})).json()
    assert answer["errors"][0]["extensions"]["code"] == "unavailable"
