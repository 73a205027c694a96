"""Problems: the status and the fields of every expected error."""

import json

import pytest

from aliquot.api.refusals import is_rest
from aliquot.api.rest.framework import STATUSES, error_response, status_of
from aliquot_schema import errors
from aliquot_schema.graphql.errors import TYPES

TOLD_WHEN = (errors.QueueFull, errors.RateLimited)
"""429 + time."""


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind not in TOLD_WHEN], ids=lambda kind: kind.__name__)
def test_every_error_has_a_status(kind: type[errors.AliquotError]) -> None:
    assert any(issubclass(kind, known) for known, _ in STATUSES)


def test_the_first_matching_error_class_gives_the_status() -> None:
    error = errors.UnsupportedResource("no", slot="cuda.device", requested="1")
    assert status_of(error) == 409


def test_a_full_queue_returns_retry_after() -> None:
    answer = error_response(errors.QueueFull("full", limit=2, queued=2, retry_after=1.2), request_id="req_1")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
    body = json.loads(bytes(answer.body))
    assert (body["code"], body["limit"], body["queued"], body["instance"]) == ("queue_full", 2, 2, "req_1")


def test_error_fields_do_not_override_standard_problem_members() -> None:
    error = errors.StateConflict("it ended", id="ses_1", state="completed")
    body = json.loads(bytes(error_response(error, request_id="req_1").body))
    assert (body["status"], body["state"], body["detail"]) == (409, "completed", "it ended")


OWN = ("/queue", "/queue/nothing", "/cluster/nothing", "/openapi.json", "/sessions")


@pytest.mark.parametrize("path", [*OWN, "/sessions/ses_1", "/", "/login"])
def test_dashboard_paths_are_not_rest_paths(path: str) -> None:
    assert is_rest(path) is (path in OWN)


@pytest.mark.parametrize(
    ("message", "detail"),
    [
        (
            "slots: cuda.device: a kernel asks for 9, and the largest agent has 8; ask for less",
            "gpu_count: a kernel asks for 9, and the largest agent has 8; ask for less",
        ),
        (
            "gpu_memory_gb: 96 GB per GPU requested, and the largest GPU has 85.8 GB; ask for at most 85.8",
            "memory_gb: 96 GB per GPU requested, and the largest GPU has 85.8 GB; ask for at most 85.8",
        ),
        ("slots: cpu: a kernel asks for 9", "slots: cpu: a kernel asks for 9"),
    ],
)
def test_error_messages_use_rest_field_names(message: str, detail: str) -> None:
    error = errors.ImpossibleRequest(message, slot="", requested="", limit="")
    assert json.loads(bytes(error_response(error, request_id="req_1").body))["detail"] == detail
