"""Wrong types in bodies and queries: the answer names the field, its type, and an example."""

import pytest

from rest_server import RestServer

NO_FIELD = "there is no such field"
TEXT = "text of at most 256 characters"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"gpu_count": "two"}, 'gpu_count: it is text; give a number from 0 to 100000, like "gpu_count": 1'),
        ({"gpu_count": -1}, 'gpu_count: it is out of range; give a number from 0 to 100000, like "gpu_count": 1'),
        ({"cluster_size": 0}, "cluster_size: it is out of range; give a whole number from 1 to 4096"),
        ({"priority": "urgent"}, "priority: 'urgent' is not allowed; give low, normal, high or critical, or a number"),
        ({"memory": 3}, f"memory: {NO_FIELD}; did you mean memory_gb? The fields are command, gpu_count, "),
        ({"command": ["a", 3]}, 'command[1]: it is a number; give text, like "text"'),
        ({"command": None}, "command: it is null; give text or a list, each text, like "),
        ({"unheard": 3}, f"unheard: {NO_FIELD}. The fields are command, gpu_count, "),
        ({"command": ""}, "command: it is empty; give text or a list, each text, like "),
        ({"command": []}, "command: it is empty; give text or a list, each text, like "),
        ({"name": ""}, f"name: it is empty; give {TEXT}"),
        ({"name": "x" * 257}, f"name: it is too long; give {TEXT}"),
        ({"time_limit": 0}, "time_limit: it is out of range; give a number above 0, at most 315360000 or text, "),
        ({"max_retries": 1.5}, "max_retries: it is a number; give a whole number from 0 to 100"),
    ],
)  # fmt: skip
def test_body_fields_of_a_wrong_type_are_refused(body: dict[str, object], words: str, stopped: RestServer) -> None:
    with stopped.client() as http:
        answer = http.post("/queue/submit", json={"command": "true", **body})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["detail"].startswith(words)
    assert answer.json()["field"] == words.partition(":")[0]


def test_an_amount_that_is_too_fine_is_refused_with_the_name_of_its_field(stopped: RestServer) -> None:
    with stopped.client() as http:
        answer = http.post("/queue/submit", json={"command": "true", "gpu_count": 0.1234}).json()
    assert answer["code"] == "not_multiple_of_quantum"
    assert answer["detail"].startswith("gpu_count: 0.1234 is not a multiple of 0.01")
    assert answer["field"] == "gpu_count"


def test_a_limit_of_a_preflight_is_refused_with_the_name_of_its_field(stopped: RestServer) -> None:
    body = {"command": "true", "preflight": "default", "preflight_limit": "0s"}
    with stopped.client() as http:
        answer = http.post("/queue/submit", json=body).json()
    assert answer["detail"] == "preflight_limit: give more than 0 s and at most 3600 s, not 0 s"
    assert answer["field"] == "preflight_limit"


def test_a_missing_field_and_a_non_object_body_are_refused(stopped: RestServer) -> None:
    with stopped.client() as http:
        missing = http.post("/queue/submit", json={}).json()["detail"]
        answer = http.post("/queue/submit", json=[]).json()
    listed = answer["detail"]
    assert answer["field"] is None
    assert missing == 'command: it is missing; give text or a list, each text, like "command": "python3 train.py"'
    assert listed.startswith("the body: it is a list; give an object with the fields command, gpu_count, ")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"first": 1000}, 'first: it is out of range; give a whole number from 1 to 100, like "first": 1'),
        ({"state": "asleep"}, "state: 'asleep' is not allowed; give one of queued, held, scheduled, "),
        ({"stat": "queued"}, f"stat: {NO_FIELD}; did you mean state? The fields are first, after, order, "),
        ({"queued_since": "noon"}, "queued_since: Invalid RFC3339 encoded datetime; give a time with its zone, like "),
        ({"priority": "urgent"}, "priority: 'urgent' is not allowed; give low, normal, high or critical, "),
        ({"after": "x"}, "after: not a cursor of this list; use `next` of the page before it"),
        ({"order": "x"}, "order: 'x' is not allowed; give one of newest, "),
        ({"queued_since": "2026"}, "queued_since: it is a number; give a time with its zone, like "),
        ({"queued_since": "1.7e9"}, "queued_since: it is a number; give a time with its zone, like "),
        ({"name": ["a", "b"]}, "name: this query parameter is repeated; give it once"),
    ],
)
def test_query_parameters_of_a_wrong_type_are_refused(
    query: dict[str, object], words: str, stopped: RestServer
) -> None:
    with stopped.client() as http:
        answer = http.get("/sessions", params=query)  # type: ignore[arg-type]  # numbers become text
    assert answer.status_code in (400, 422)
    assert answer.json()["detail"].startswith(words)
    assert answer.json()["field"] == words.partition(":")[0]
    assert "fair_share" not in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"devices": "node/cuda0"}, f'devices: it is text; give a list, each {TEXT}, like "devices": ["text"]'),
        ({"devices": ["a", 1]}, f'devices[1]: it is a number; give {TEXT}, like "text"'),
        ({"nodes": {}}, f'nodes: it is an object; give a list, each {TEXT}, like "nodes": ["text"]'),
    ],
)  # fmt: skip
def test_invalid_lists_in_a_booking_are_refused(body: dict[str, object], words: str, stopped: RestServer) -> None:
    window = {"name": "x", "starts_at": "2026-11-23T09:00:00Z", "ends_at": "2026-11-23T10:00:00Z"}
    with stopped.client() as http:
        answer = http.post("/reservations", json={**window, **body})
    assert (answer.status_code, answer.json()["detail"]) == (422, words)


def test_a_time_without_a_zone_and_an_invalid_month_are_refused(stopped: RestServer) -> None:
    window = {"name": "x", "starts_at": "2026-11-23T09:00:00", "ends_at": "2026-11-23T10:00:00Z"}
    with stopped.client() as http:
        booked = http.post("/reservations", json=window).json()["detail"]
        billed = http.get("/statements", params={"month": "2026-13"}).json()["detail"]
    assert booked.startswith("starts_at: it has no zone; give a time with its zone, like ")
    assert billed == 'month: it is not of this form; give text, like "month": "2026-11"'


def test_times_at_the_limits_of_the_calendar_cause_no_error(stopped: RestServer) -> None:
    first, last = "0001-01-01T00:00:00+05:00", "9999-12-31T23:00:00-05:00"
    with stopped.client() as http:
        listed = http.get("/reservations", params={"since": first, "until": last})
        booked = http.post("/reservations", json={"name": "x", "starts_at": "2026-11-23T09:00:00Z", "ends_at": last})
        old = http.post("/reservations", json={"name": "x", "starts_at": first, "ends_at": last})
        asked = http.post("/graphql", json={"query": f'{{ reservations(since: "{first}") {{ id }} }}'}).json()
    assert listed.status_code == 200, listed.text
    assert (booked.status_code, old.status_code) == (422, 422)
    assert old.json()["detail"] == "starts_at: it is in the past"
    assert f"DateTime takes times from the year 1 to 9999 in UTC, not '{first}'" in asked["errors"][0]["message"]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"weights": {"age": "x"}}, 'policy_config.weights.age: it is text; give a whole number, like "age": 1'),
        ({"weights": {"agee": 1}}, f"policy_config.weights.agee: {NO_FIELD}; did you mean age?"),
        ({"pools": [{"name": 3}]}, 'policy_config.pools[0].name: it is a number; give text, like "name": "text"'),
    ],
)
def test_wrong_fields_within_the_policy_are_refused(config: dict[str, object], words: str, stopped: RestServer) -> None:
    with stopped.client() as http:
        answer = http.put("/orchestrator/policies", json={"policy_config": config})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(words)


def test_the_policy_can_be_sent_back_as_it_was_read(stopped: RestServer) -> None:
    with stopped.client() as http:
        shown = http.get("/orchestrator/policies").json()
        assert http.put("/orchestrator/policies", json=shown).json() == shown
        assert http.put("/orchestrator/policies", json={"policy_config": shown}).json() == shown
        changed = http.put("/orchestrator/policies", json={"user_priority_max": "high"})
        assert (changed.status_code, changed.json()["user_priority_max"]) == (200, 3)
        again = http.put("/orchestrator/policies", json={**changed.json(), "user_priority_max": "2"}).json()
        assert again["user_priority_max"] == 2
        nothing = http.put("/orchestrator/policies", json={})
        both = http.put("/orchestrator/policies", json={"order": "sjf", "policy_config": {"order": "sjf"}})
    assert (nothing.status_code, both.status_code) == (422, 422)
    assert nothing.json()["detail"].startswith("policy_config: it is missing; give changes, like ")
    assert both.json()["detail"].startswith("order: give it within policy_config")


def test_the_refusal_of_a_large_kernel_suggests_a_gang_that_is_accepted(stopped: RestServer) -> None:
    with stopped.client() as http:
        refused = http.post("/queue/submit", json={"command": "true", "gpu_count": 9})
        taken = http.post("/queue/submit", json={"command": "true", "gpu_count": 8, "cluster_size": 2})
        http.delete(f"/queue/{taken.json()['job_id']}")
    detail = refused.json()["detail"]
    assert detail.startswith("gpu_count: a kernel asks for 9, and the largest agent has 8; ")
    assert detail.endswith("or for more kernels with cluster_size")
    assert (taken.status_code, taken.json()["cluster_size"], taken.json()["requested_gpus"]) == (200, 2, 16.0)


@pytest.mark.parametrize("path", ["/queues", "/nothing", "/queue/x/y"])
def test_an_unknown_path_is_a_problem_for_programs_and_a_page_for_browsers(path: str, stopped: RestServer) -> None:
    with stopped.client() as http:
        answer = http.get(path)
        page = http.get(path, headers={"accept": "text/html"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert answer.json()["detail"] == f"GET {path}: there is no such operation; see /openapi.json"
    assert page.status_code == 404


def test_a_release_returns_the_released_gpus(server: RestServer) -> None:
    with server.client() as http:
        taken = http.post("/cluster/gpu-allocate", json={"job_id": "quarter", "gpu_count": 0.25}).json()
        released = http.post("/cluster/gpu-release", json={"job_id": "quarter"}).json()
        again = http.post("/cluster/gpu-release", json={"job_id": "quarter"})
    assert (released["released_gpus"], released["gpu_ids"]) == (0.25, taken["gpu_ids"])
    assert (released["renewed"], released["expires_at"]) == (False, None)
    assert again.status_code == 404


def test_an_example_submission_is_accepted(stopped: RestServer) -> None:
    example = {"command": "python3 train.py", "gpu_count": 1, "priority": "normal", "time_limit": "2h30m"}
    with stopped.client() as http:
        made = http.post("/queue/submit", json=example)
        http.delete(f"/queue/{made.json()['job_id']}")
    assert made.status_code == 200
