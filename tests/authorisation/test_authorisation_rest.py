"""The REST matrix: every operation, requested without a key and by every role, on own and others' objects."""

from typing import Any

import pytest

from aliquot.api.rest.framework import Operation
from aliquot.api.rest.routes import OPERATIONS
from aliquot_schema.identity.access import REST
from aliquot_schema.identity.accounts import Role
from authorisation_server import OTHER, AuthorisationServer

pytestmark = pytest.mark.anyio

BODIES: dict[str, dict[str, Any]] = {
    "gpu_allocate": {"job_id": "x", "gpu_count": 1000},
    "gpu_release": {"job_id": "x"},
    "orchestrator_what_if": {"drain": "nobody"},
    "queue_change": {"time_limit": 3600},
    "extend_reservation": {"ends_at": "1970-01-01T02:30:00Z"},
    "reserve": {"name": "x", "starts_at": "2026-01-01T00:00:00Z", "ends_at": "2026-01-01T00:00:00Z"},
    "queue_submit": {"command": "true"},
    "queue_extend": {"time": "1h"},
    "queue_priority": {"priority": "low"},
    "orchestrator_update_policies": {"policy_config": {"order": "fcfs"}},
}
BY_NAME = {operation.name: operation for operation in OPERATIONS}


def test_every_operation_has_a_rule_and_every_rule_an_operation() -> None:
    assert set(REST) == set(BY_NAME)


@pytest.mark.parametrize("own", [True, False], ids=["own", "others"])
@pytest.mark.parametrize("role", [None, *Role], ids=lambda role: "nobody" if role is None else role.name.lower())
@pytest.mark.parametrize("name", sorted(REST))
async def test_a_rest_operation_is_available_only_to_the_roles_of_its_rule(
    server: AuthorisationServer, name: str, role: Role | None, own: bool
) -> None:
    user = None if role is None else role.name.lower()
    status = await _status(server, BY_NAME[name], user, owner=user if own and user else OTHER)
    if role is None:
        assert status == 401
    else:
        assert (status == 403) is not REST[name].allows(role, own=own), status
        assert status not in (400, 401, 405, 500)


async def _status(server: AuthorisationServer, operation: Operation, user: str | None, *, owner: str) -> int:
    path = operation.path
    if "job_id" in operation.path_names:
        path = path.replace("{job_id}", await server.session_of(owner))
    if "name" in operation.path_names:
        path = path.replace("{name}", await server.booking_of(owner))
    body = BODIES.get(operation.name, {}) if operation.body is not None else None
    response = await server.clients[user].request(operation.method, path, json=body)
    return response.status_code


async def test_the_queue_hides_commands_of_other_users(server: AuthorisationServer) -> None:
    session_id = await server.session_of(OTHER, argv=("train", "hush"), run_id="hush")
    answer = await server.clients["user"].get("/queue")
    [job] = [job for job in answer.json()["jobs"] if job["job_id"] == session_id]
    assert (job["owner"], job["command"], job["run_id"]) == (OTHER, [], None)
    assert "hush" not in answer.text
