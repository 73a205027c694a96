"""External allocations and the orchestrator over GraphQL."""

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from rest_server import RestServer

PATIENCE_S = 60.0
ALLOCATE = """mutation ($input: AllocateGpusInput!) { allocate_gpus(input: $input) {
  ... on GpusAllocated { job_id session_id gpu_ids gpus { node_id gpu_id share memory_gb } expires_at renewed }
  ... on NotPlaced { code reason until holders { session_id user name until } }
  ... on Error { code message } } }"""
RELEASE = """mutation ($job_id: String!) { release_gpus(job_id: $job_id) {
  ... on GpusAllocated { gpu_ids expires_at } ... on Error { code } } }"""
STOP = """mutation { orchestrator_stop(note: "new switch") {
  ... on OrchestratorChangeSuccess { revision orchestrator { state stopped_by stopped_at note } } } }"""
START = "mutation { orchestrator_start { ... on OrchestratorChangeSuccess { orchestrator { state stopped_by } } } }"
NUMBERS = """{ cluster { total_gpus available_gpus allocated_gpus nodes { node_id gpu_count gpu_type }
  gpus { id memory_total utilization temperature allocated_to { user share } } ray { head_node } }
  queue_statistics { total_queued average_wait_time throughput wait_distribution { at_least below count } } }"""


@pytest.fixture
def http(server: RestServer) -> Iterator[httpx.Client]:
    with server.client() as client:
        client.post("/orchestrator/start")
        _until_idle(client)
        yield client
        client.post("/cluster/gpu-release", json={"job_id": "over graphql"})


def _until_idle(client: httpx.Client) -> None:
    """Wait until sessions canceled by other tests have ended."""
    given_up = time.monotonic() + PATIENCE_S
    while client.get("/cluster/gpu-status").json()["allocated_gpus"] and time.monotonic() < given_up:
        time.sleep(0.05)


def asked(http: httpx.Client, query: str, **variables: Any) -> Any:
    body = http.post("/graphql", json={"query": query, "variables": variables}).json()
    assert "errors" not in body, body
    return body["data"]


def test_gpus_are_allocated_and_released(http: httpx.Client) -> None:
    job = {"job_id": "over graphql", "gpu_count": 16, "memory_gb": 40}
    given = asked(http, ALLOCATE, input=job)["allocate_gpus"]
    assert len(set(given["gpu_ids"])) == 16
    rest = http.post("/cluster/gpu-allocate", json=job).json()
    assert (rest["session_id"], rest["renewed"]) == (given["session_id"], True)
    refused = asked(http, ALLOCATE, input={"job_id": "another"})["allocate_gpus"]
    assert (refused["code"], refused["reason"]) == ("not_placed", "insufficient")
    assert {holder["session_id"] for holder in refused["holders"]} == {given["session_id"]}
    gone = asked(http, RELEASE, job_id="over graphql")["release_gpus"]
    assert (sorted(gone["gpu_ids"]), gone["expires_at"]) == (sorted(given["gpu_ids"]), None)
    assert asked(http, RELEASE, job_id="over graphql")["release_gpus"] == {"code": "not_found"}


def test_an_orchestrator_stop_over_graphql_is_visible_over_rest(http: httpx.Client) -> None:
    stopped = asked(http, STOP)["orchestrator_stop"]["orchestrator"]
    seen = http.get("/orchestrator/status").json()
    assert {name: seen[name] for name in stopped} == stopped
    assert (seen["state"], seen["note"]) == ("stopped", "new switch")
    assert asked(http, START)["orchestrator_start"]["orchestrator"] == {"state": "running", "stopped_by": None}


def test_graphql_and_rest_return_the_same_numbers(http: httpx.Client) -> None:
    data = asked(http, NUMBERS)
    status = http.get("/cluster/gpu-status").json()
    for name in ("total_gpus", "available_gpus", "allocated_gpus"):
        assert data["cluster"][name] == status[name]
    assert [gpu["id"] for gpu in data["cluster"]["gpus"]] == [gpu["id"] for gpu in status["gpus"]]
    numbers = http.get("/queue/statistics").json()
    assert {name: numbers[name] for name in data["queue_statistics"]} == data["queue_statistics"]
