"""The OpenAPI document matches the answers to any request, checked by schemathesis."""

import re

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

from aliquot.api.rest.routes import OPERATIONS
from rest_server import RestServer

EFFORT = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
ELSEWHERE = [ignored_auth, positive_data_acceptance]
"""Requests without a token have their own test.
Valid requests may still be refused, depending on the cluster: a missing pool, an unsupported step of a slot, a cursor
of another list."""
SUBMIT = "queue_submit"
"""Sent to a server that runs nothing: commands are random text."""


def hold(server: RestServer, name: str) -> None:
    """Send requests valid and invalid by the document, and validate all answers."""
    document = schemathesis.openapi.from_url(f"{server.address}/openapi.json", headers=server.headers)
    operation = next(found for found in OPERATIONS if found.name == name)
    described = document[operation.path][operation.method]
    cases = described.as_strategy() | described.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)

    @EFFORT
    @given(case=cases)
    def answers_as_it_says(case: schemathesis.Case) -> None:
        # An empty list or object is absent from a URL, so the server cannot refuse it.
        assume(all(value not in ([], {}) for value in (case.query or {}).values()))
        # Requests to other hosts are refused before they reach an operation.
        assume("host" not in {name.lower() for name in case.headers or {}})
        case.call_and_validate(headers=server.headers, excluded_checks=ELSEWHERE)

    answers_as_it_says()


@pytest.mark.parametrize("name", [operation.name for operation in OPERATIONS if operation.name != SUBMIT])
def test_answers_are_as_the_document_says(name: str, explored: RestServer) -> None:
    hold(explored, name)


def test_submissions_are_answered_as_the_document_says(stopped: RestServer) -> None:
    hold(stopped, SUBMIT)


def test_the_document_is_of_openapi_3_1_and_names_every_operation_once(server: RestServer) -> None:
    document = httpx.get(f"{server.address}/openapi.json", headers=server.headers).json()
    assert document["openapi"].startswith("3.1")
    names = [shown["operationId"] for path in document["paths"].values() for shown in path.values()]
    assert sorted(names) == sorted(["session_file", *(operation.name for operation in OPERATIONS)])
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_operation_without_a_token_gets_401(operation: object, server: RestServer) -> None:
    path = operation.path.replace("{job_id}", "ses_x")  # type: ignore[attr-defined]  # an Operation
    answer = httpx.request(operation.method, f"{server.address}{path}", json={})  # type: ignore[attr-defined]
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"] == "Bearer"


def test_people_read_of_sessions_in_every_operation(server: RestServer) -> None:
    document = httpx.get(f"{server.address}/openapi.json", headers=server.headers).json()
    summaries = [one["summary"] for path in document["paths"].values() for one in path.values() if "summary" in one]
    assert [text for text in summaries if re.search(r"\bjobs?\b(?! array)", text, re.IGNORECASE)] == []
    for what in ("why", "forecast"):
        answer = httpx.get(f"{server.address}/queue/nothing/{what}", headers=server.headers)
        assert (answer.status_code, answer.json()["detail"]) == (404, "there is no session nothing")
