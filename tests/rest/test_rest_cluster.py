"""The cluster over REST: status and external allocations."""

from collections.abc import Iterator

import httpx
import pytest

from rest_server import RestServer

PROBLEM = "application/problem+json"


@pytest.fixture
def http(server: RestServer) -> Iterator[httpx.Client]:
    with server.client() as client:
        client.post("/orchestrator/start")
        yield client


@pytest.fixture
def job(request: pytest.FixtureRequest, http: httpx.Client) -> Iterator[str]:
    """A unique job name; its GPUs are released afterwards."""
    name = request.node.name[:100]
    yield name
    http.post("/cluster/gpu-release", json={"job_id": name})


def held(http: httpx.Client, job: str) -> dict[str, float]:
    """A job's GPU shares in the cluster status."""
    allocation = http.post("/cluster/gpu-allocate", json={"job_id": job})
    assert allocation.status_code == 200, allocation.text
    session = allocation.json()["session_id"]
    gpus = http.get("/cluster/gpu-status").json()["gpus"]
    found = {
        gpu["id"]: holder["share"] for gpu in gpus for holder in gpu["allocated_to"] if holder["session_id"] == session
    }
    return {gpu: float(share) for gpu, share in found.items()}


def test_gpu_status_lists_nodes_and_gpus(http: httpx.Client) -> None:
    seen = http.get("/cluster/gpu-status").json()
    assert seen["total_gpus"] == 16.0
    assert [(node["node_id"], node["gpu_count"]) for node in seen["nodes"]] == [("demo-1", 8), ("demo-2", 8)]
    assert len(seen["gpus"]) == 16
    assert {"id", "memory_total", "memory_used", "utilization", "temperature", "allocated_to"} <= set(seen["gpus"][0])
    assert seen["ray"] is None


def test_gpus_are_allocated_renewed_and_released(http: httpx.Client, job: str) -> None:
    before = http.get("/cluster/gpu-status").json()["allocated_gpus"]
    given = http.post("/cluster/gpu-allocate", json={"job_id": job, "gpu_count": 1, "memory_gb": 40})
    assert given.status_code == 200, given.text
    body = given.json()
    assert (len(body["gpu_ids"]), body["renewed"]) == (1, False)
    assert http.get("/cluster/gpu-status").json()["allocated_gpus"] == before + 1
    again = http.post("/cluster/gpu-allocate", json={"job_id": job, "gpu_count": 1, "memory_gb": 40}).json()
    assert (again["gpu_ids"], again["renewed"]) == (body["gpu_ids"], True)
    assert again["expires_at"] > body["expires_at"]
    other = http.post("/cluster/gpu-allocate", json={"job_id": job, "gpu_count": 2, "memory_gb": 40})
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_mismatch")
    assert http.post("/cluster/gpu-release", json={"job_id": job}).status_code == 200
    assert http.get("/cluster/gpu-status").json()["allocated_gpus"] == before
    assert http.post("/cluster/gpu-release", json={"job_id": job}).status_code == 404


def test_gpu_status_names_the_holder_of_each_device(http: httpx.Client, job: str) -> None:
    assert list(held(http, job).values()) == [1.0]


def test_a_refused_allocation_names_the_holders_and_their_end(http: httpx.Client, job: str) -> None:
    first = http.post("/cluster/gpu-allocate", json={"job_id": job, "gpu_count": 16, "lease": "10m"})
    assert first.status_code == 200, first.text
    refused = http.post("/cluster/gpu-allocate", json={"job_id": f"{job} too", "gpu_count": 1})
    assert (refused.status_code, refused.headers["content-type"]) == (409, PROBLEM)
    problem = refused.json()
    assert (problem["code"], problem["status"]) == ("not_placed", 409)
    until = first.json()["expires_at"]
    (holder,) = problem["holders"]
    assert (holder["session_id"], holder["name"], holder["until"]) == (first.json()["session_id"], job, until)
    assert problem["until"] == until


def test_a_job_is_completed_after_its_release(http: httpx.Client, job: str) -> None:
    session = http.post("/cluster/gpu-allocate", json={"job_id": job}).json()["session_id"]
    http.post("/cluster/gpu-release", json={"job_id": job})
    query = "query ($id: ID!) { session(id: $id) { state run_id holds_devices waits { reason } } }"
    answer = http.post("/graphql", json={"query": query, "variables": {"id": session}}).json()
    assert answer["data"]["session"] == {"state": "completed", "run_id": job, "holds_devices": False, "waits": None}
