"""The queue and the orchestrator over REST."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from rest_server import RestServer, rest_server

PROBLEM = "application/problem+json"


@pytest.fixture
def http(stopped: RestServer) -> Iterator[httpx.Client]:
    with stopped.client() as client:
        client.post("/orchestrator/stop")
        while jobs := client.get("/queue").json()["jobs"]:
            for job in jobs:
                client.delete(f"/queue/{job['job_id']}")
        yield client


def submit(http: httpx.Client, **more: object) -> dict[str, object]:
    answer = http.post("/queue/submit", json={"command": "true", **more})
    assert answer.status_code == 200, answer.text
    body: dict[str, object] = answer.json()
    return body


def test_a_job_is_submitted_listed_reprioritized_and_canceled(http: httpx.Client) -> None:
    job = submit(http, gpu_count=2, memory_gb=40, priority="high", estimated_duration=60, run_id="r")
    assert (job["requested_gpus"], job["requested_memory_gb"], job["priority"]) == (2.0, "40", "high")
    (listed,) = http.get("/queue").json()["jobs"]
    assert (listed["job_id"], listed["run_id"], listed["queue_position"]) == (job["job_id"], "r", 1)
    assert listed["waits"]["reason"] == "stopped"
    moved = http.patch(f"/queue/{job['job_id']}/priority", json={"priority": 1}).json()
    assert moved["priority"] == "low"
    gone = http.delete(f"/queue/{job['job_id']}").json()
    assert gone["state"] == "canceled"
    assert http.get("/queue").json()["jobs"] == []
    assert http.delete("/queue/ses_nobody").status_code == 404


@pytest.mark.parametrize(("given", "seconds"), [(90, 90), (1.5, 1.5), ("90", 90), ("2h30", 9000), ("1d12h", 129_600)])
def test_durations_are_seconds_or_text(given: float | str, seconds: float, http: httpx.Client) -> None:
    job = submit(http, time_limit=given, estimated_duration=given)
    assert (job["time_limit"], job["estimated_duration"]) == (seconds, seconds)


def test_an_elastic_gang_with_checkpoints_can_be_submitted(http: httpx.Client) -> None:
    asked = {
        "cluster_size": 4,
        "cluster_size_min": 2,
        "preemptible": True,
        "checkpoint_signal": "SIGUSR1",
        "checkpoint_every": "10m",
    }
    job = submit(http, **asked)
    assert {name: job[name] for name in asked} == {**asked, "checkpoint_every": 600.0}
    assert job["topology"] == "prefer"
    assert submit(http, cluster_size=2, topology="require")["topology"] == "require"


@pytest.mark.parametrize(
    ("given", "command"),
    [("default", []), ("./check --fast", ["/bin/sh", "-c", "./check --fast"]), (["./check"], ["./check"])],
)
def test_a_job_with_a_preflight_can_be_submitted(
    given: str | list[str], command: list[str], http: httpx.Client
) -> None:
    check = submit(http, preflight=given, preflight_limit="2m")["preflight"]
    assert (check["command"], check["time_limit"], check["failures"], check["agent_id"]) == (command, 120.0, 0, None)
    assert submit(http)["preflight"] is None


@pytest.mark.parametrize(
    "wrong", [{"preflight": []}, {"preflight": "./check", "preflight_limit": "2h"}, {"preflight": [""]}]
)
def test_a_preflight_without_a_command_or_with_a_long_limit_is_refused(
    wrong: dict[str, object], http: httpx.Client
) -> None:
    answer = http.post("/queue/submit", json={"command": "true", **wrong})
    assert answer.status_code == 422
    assert "preflight" in answer.json()["detail"]


@pytest.mark.parametrize("field", ["time_limit", "estimated_duration", "checkpoint_every"])
def test_an_invalid_duration_is_refused_with_its_field_and_the_format(field: str, http: httpx.Client) -> None:
    answer = http.post("/queue/submit", json={"command": "true", field: "soon"})
    assert answer.status_code == 422
    words = f"{field}: 'soon' is not a duration; write it like 90s, 15m, 2h30m or 1d12h"
    assert answer.json()["detail"] == words
    too_long = http.post("/queue/submit", json={"command": "true", field: "11y"})
    assert (too_long.status_code, too_long.json()["code"]) == (422, "invalid_request")


def test_a_repeated_submission_with_an_idempotency_key_creates_one_job(http: httpx.Client) -> None:
    key = {"idempotency-key": "k1"}
    first, second = (http.post("/queue/submit", json={"command": ["true"]}, headers=key).json() for _ in range(2))
    assert first["job_id"] == second["job_id"]
    other = http.post("/queue/submit", json={"command": ["false"]}, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_mismatch")


def test_the_queue_is_listed_in_pages(http: httpx.Client) -> None:
    jobs = [submit(http)["job_id"] for _ in range(3)]
    first = http.get("/queue", params={"first": 2}).json()
    rest = http.get("/queue", params={"first": 2, "after": first["next"]}).json()
    assert [job["job_id"] for job in (*first["jobs"], *rest["jobs"])] == jobs
    assert (first["total_queued"], rest["next"]) == (3, None)


def test_queue_statistics_count_queued_jobs(http: httpx.Client) -> None:
    submit(http)
    seen = http.get("/queue/statistics").json()
    assert seen["total_queued"] == 1
    assert seen["oldest_wait"] >= 0
    assert sum(bucket["count"] for bucket in seen["wait_distribution"]) == seen["started"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"command": ""}, 422),
        ({"command": "x", "gpus": 1}, 422),
        ([], 422),
        ({"command": "x", "pool": "?"}, 422),
    ],
)
def test_an_invalid_request_returns_a_problem(body: object, status: int, http: httpx.Client) -> None:
    answer = http.post("/queue/submit", json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM)
    problem = answer.json()
    assert problem["instance"] == answer.headers["x-request-id"]
    assert {"type", "title", "status", "detail", "code"} <= set(problem)


def test_request_bodies_must_be_json(http: httpx.Client) -> None:
    assert http.post("/queue/submit", content=b"{").status_code == 415
    malformed = http.post("/queue/submit", content=b"{", headers={"content-type": "application/json"})
    assert (malformed.status_code, malformed.json()["code"]) == (400, "malformed")


def test_a_chunked_body_above_the_limit_gets_413(http: httpx.Client) -> None:
    pieces = (b" " * 65_536 for _ in range(17 * 16))
    answer = http.post("/queue/submit", content=pieces, headers={"content-type": "application/json"})
    assert answer.status_code == 413


def test_requests_from_other_origins_are_refused(http: httpx.Client, stopped: RestServer) -> None:
    foreign = {"origin": "https://evil.example", "content-type": "application/json"}
    assert http.post("/orchestrator/stop", headers=foreign, json={}).status_code == 403
    assert http.get("/queue", headers={"host": "evil.example"}).status_code == 421
    with httpx.Client(base_url=stopped.address, cookies={"aliquot_session": "1.x"}) as anonymous:
        assert anonymous.post("/orchestrator/stop").status_code == 401


def test_a_browser_gets_the_dashboard_at_the_address_of_the_queue(http: httpx.Client) -> None:
    answer = http.get("/queue", headers={"accept": "text/html"})
    assert answer.headers["content-type"].startswith("text/html")


def test_the_policy_is_shown_and_changed(http: httpx.Client) -> None:
    shown = http.get("/orchestrator/policies").json()
    changed = http.put("/orchestrator/policies", json={"policy_config": {**shown, "half_life": 3600.0}})
    assert changed.status_code == 200, changed.text
    assert (changed.json()["half_life"], changed.json()["version"]) == (3600.0, shown["version"] + 1)
    late = http.put("/orchestrator/policies", json={"policy_config": {"version": shown["version"], "order": "sjf"}})
    assert (late.status_code, late.json()["code"]) == (409, "version_conflict")
    config = {"half_life": "7d", "weights": {"age_unit": "1d12"}, "preemption": {"grace": 30}}
    words = http.put("/orchestrator/policies", json={"policy_config": config}).json()
    seen = (words["half_life"], words["weights"]["age_unit"], words["preemption"]["grace"])
    assert seen == (604_800, 129_600, 30)
    old = http.put("/orchestrator/policies", json={"policy_config": {"preemption": {"victims": "nobody"}}}).json()
    assert (old["preemption"]["preempt"], old["preemption"]["victims"]) == ("none", "nobody")
    wrong = http.put("/orchestrator/policies", json={"policy_config": {"weights": {"age_unit": "soon"}}})
    assert wrong.status_code == 422
    assert "weights.age_unit: 'soon' is not a duration; write it like" in wrong.json()["detail"]
    unknown = http.put("/orchestrator/policies", json={"policy_config": {"weights": {"agee": 1}}})
    assert unknown.status_code == 422
    assert "agee" in unknown.json()["detail"]


def test_the_orchestrator_starts_stopped_and_keeps_its_state_across_restarts(tmp_path: Path) -> None:
    with rest_server(tmp_path, "--stopped", "--max-queue-size", "2") as server, server.client() as http:
        status = http.get("/orchestrator/status").json()
        assert (status["state"], status["stopped_by"]) == ("stopped", "system:settings")
        submit(http)
        submit(http)
        full = http.post("/queue/submit", json={"command": "true"})
        assert (full.status_code, full.json()["code"]) == (429, "queue_full")
        assert int(full.headers["retry-after"]) > 0
        assert http.post("/orchestrator/start").json()["state"] == "running"
    with rest_server(tmp_path, "--stopped") as server, server.client() as http:
        status = http.get("/orchestrator/status").json()
        assert (status["state"], status["stopped_by"]) == ("running", None)
        stopped = http.post("/orchestrator/stop", json={"note": "new switch"}).json()
        assert (stopped["state"], stopped["note"]) == ("stopped", "new switch")
    with rest_server(tmp_path) as server, server.client() as http:
        status = http.get("/orchestrator/status").json()
        assert (status["state"], status["note"]) == ("stopped", "new switch")
        assert status["stopped_at"] == stopped["stopped_at"]
