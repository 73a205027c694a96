"""Lists of sessions over REST."""

from collections.abc import Iterator

import httpx
import pytest

from rest_server import RestServer


@pytest.fixture
def jobs(stopped: RestServer) -> Iterator[list[dict[str, str]]]:
    """Three queued jobs with their own run; the first is critical, the last canceled."""
    with stopped.client() as http:
        wishes = [{"priority": "critical", "name": "c", "gpu_count": 0.5}, {"name": "a"}, {"name": "b", "gpu_count": 2}]
        made = [
            http.post("/queue/submit", json={"command": "true", "run_id": "listed", **wish}).raise_for_status().json()
            for wish in wishes
        ]
        http.delete(f"/queue/{made[2]['job_id']}").raise_for_status()
        yield made
        for job in made[:2]:
            http.delete(f"/queue/{job['job_id']}")


def _names(http: httpx.Client, **asked: object) -> list[str]:
    """Page by page."""
    found: list[str] = []
    after: dict[str, str] = {}
    while True:
        answer = http.get("/sessions", params={"run_id": "listed", "first": 1, **asked, **after})
        assert answer.status_code == 200, answer.text
        piece = answer.json()
        found += [job["name"] for job in piece["jobs"]]
        if piece["next"] is None:
            assert piece["total_count"] == len(found)
            return found
        after = {"after": piece["next"]}


def test_sessions_are_listed_by_filter_and_order(stopped: RestServer, jobs: list[dict[str, str]]) -> None:
    with stopped.client() as http:
        assert _names(http) == ["b", "a", "c"]
        assert _names(http, order="name_asc") == ["a", "b", "c"]
        assert _names(http, order="gpus_desc") == ["b", "a", "c"]
        assert _names(http, order="ended_asc") == ["b", "c", "a"]
        assert _names(http, state="queued", priority="critical") == ["c"]
        assert _names(http, states="queued") == ["a", "c"]
        assert _names(http, states="queued, canceled") == ["b", "a", "c"]
        assert _names(http, state="canceled", states="running") == ["b"]
        assert _names(http, queued_since=jobs[1]["queued_at"]) == ["b", "a"]
        assert _names(http, ended_until="2020-01-01T00:00:00Z") == []
        assert _names(http, agent_id="nobody") == []


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"order": "upwards"}, 422),
        ({"queued_since": "2026-01-01T00:00:00"}, 422),
        ({"exit_code": 2**70}, 422),
        ({"states": "queued,done"}, 422),
        ({"who": "me"}, 422),
        ({"after": "bmV3ZXN0CnNlc18x", "order": "oldest"}, 422),
        ({"state": ["running", "queued"]}, 422),
    ],
)
def test_invalid_session_filters_are_refused(stopped: RestServer, asked: dict[str, object], code: int) -> None:
    with stopped.client() as http:
        answer = http.get("/sessions", params=asked)
        assert answer.status_code == code, answer.text
