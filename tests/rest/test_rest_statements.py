"""Statements over REST: all projects, one project, and CSV."""

import csv
import io
from collections.abc import Iterator

import httpx
import pytest

from rest_server import RestServer

PROBLEM = "application/problem+json"
PRICES = {"rates": [{"price": 2.5}], "currency": "EUR"}


@pytest.fixture
def http(server: RestServer) -> Iterator[httpx.Client]:
    """A cluster with prices, on which the project `default` held a GPU."""
    with server.client() as client:
        client.post("/orchestrator/start")
        assert client.put("/orchestrator/policies", json={"prices": PRICES}).status_code == 200
        held = client.post("/cluster/gpu-allocate", json={"job_id": "statement", "gpu_count": 1})
        assert held.status_code == 200, held.text
        assert client.post("/cluster/gpu-release", json={"job_id": "statement"}).status_code == 200
        yield client
        client.put("/orchestrator/policies", json={"prices": {"rates": []}})


def test_a_statement_is_read_alone_among_all_and_as_csv(http: httpx.Client) -> None:
    (one,) = http.get("/statements").json()["statements"]
    alone = http.get(f"/statements/{one['project']}")
    assert alone.status_code == 200, alone.text
    assert (alone.json()["currency"], alone.json()["month"]) == ("EUR", one["month"])
    same_month = http.get(f"/statements/{one['project']}", params={"month": one["month"]}).json()
    assert (same_month["project"], same_month["held"]) == (one["project"], alone.json()["held"])
    table = http.get(f"/statements/{one['project']}/csv")
    assert table.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert {row["project"] for row in rows} == {one["project"]}
    assert {"held", "cost", "still held"} <= {row["item"] for row in rows}


@pytest.mark.parametrize("path", ["/statements/nowhere", "/statements/nowhere/csv"])
def test_a_project_without_a_statement_is_not_found(http: httpx.Client, path: str) -> None:
    found = http.get(path)
    assert (found.status_code, found.headers["content-type"]) == (404, PROBLEM)
    assert "project nowhere has no statement for" in found.json()["detail"]


@pytest.mark.parametrize("month", ["2026-13", "november", "2026-1", "0000-01", "9999-12"])
def test_an_invalid_month_is_refused(http: httpx.Client, month: str) -> None:
    assert http.get("/statements", params={"month": month}).status_code == 422
    assert http.get("/statements/default", params={"month": month}).status_code == 422


def test_without_a_token_there_is_no_statement(server: RestServer) -> None:
    assert httpx.get(f"{server.address}/statements", timeout=60).status_code == 401
