"""The matrix: every root field, requested without a key and by every role, on own and others' objects."""

from typing import Any

import pytest

from aliquot_schema.identity.access import CHANGE, ROOTS, Access
from aliquot_schema.identity.accounts import Role
from authorisation_queries import operation, root_fields
from authorisation_server import AGENT, OTHER, AuthorisationServer

pytestmark = pytest.mark.anyio

NOBODY = None
ROLES = [NOBODY, *Role]
REFUSED = {"forbidden"}
COMMAND = {"command": {"shell": "true"}, "slots": [{"slot": "cuda.device", "amount": "1"}]}
GIVEN: dict[str, dict[str, Any]] = {
    "Mutation.allocate_gpus": {"input": {"job_id": "x", "gpu_count": 1000}},
    "Mutation.create_session": {"input": COMMAND},
    "Mutation.create_sessions": {"input": {"sessions": [COMMAND]}},
    "Mutation.import_reservations": {"input": {"file_name": "x.csv", "content": ""}},
    "Mutation.reserve": {"input": {"name": "x", "starts_at": "2026-01-01T00:00Z", "ends_at": "2026-01-01T00:00Z"}},
    "Mutation.start_backtest": {"input": {"runs": [{"without": ["nowhere"]}]}},
    "Mutation.start_tuning": {"input": {"tries": 0}},
    "Mutation.set_quota": {"input": {"scope": "user", "name": "x", "weight": 1}},
    "Mutation.save_session_template": {"project": "default", "name": "x", "fields": "{}"},
    "Mutation.delete_session_template": {"project": "default", "name": "not there"},
    "Query.preview_forecasts": {"inputs": [COMMAND]},
    "Query.preview_session": {"input": COMMAND},
    "Query.reservation_effect": {
        "input": {"name": "x", "starts_at": "2026-01-01T00:00Z", "ends_at": "2026-01-01T00:00Z"}
    },
    "Query.what_if": {"input": {"drain": AGENT}},
}
"""Arguments checked before the caller."""


def test_every_root_field_has_a_rule_and_every_rule_a_field() -> None:
    assert set(ROOTS) == set(root_fields())


@pytest.mark.parametrize("own", [True, False], ids=["own", "others"])
@pytest.mark.parametrize("role", ROLES, ids=lambda role: "nobody" if role is None else role.name.lower())
@pytest.mark.parametrize("name", sorted(ROOTS))
async def test_a_root_field_is_available_only_to_the_roles_of_its_rule(
    server: AuthorisationServer, name: str, role: Role | None, own: bool
) -> None:
    user = None if role is None else role.name.lower()
    query, variables = operation(name, await _arguments(server, name, owner=user if own and user else OTHER))
    found = await _outcome(server, name, user, query, variables)
    assert found == _expected(ROOTS[name], role, own=own), (query, variables)


def _expected(rule: Access, role: Role | None, *, own: bool) -> str:
    if role is None:
        return "unauthenticated"
    return "allowed" if rule.allows(role, own=own) else "refused"


OF_OUTPUT = (
    "Subscription.session_logs",
    "Query.array_metrics",
    "Query.session_files",
    "Query.session_history",
    "Query.session_log",
    "Query.session_metrics",
    "Query.session_stats",
)


async def _arguments(server: AuthorisationServer, name: str, *, owner: str) -> dict[str, Any]:
    """A field's arguments, for an owner's object."""
    field = root_fields()[name]
    if name in GIVEN:
        return GIVEN[name]
    if name == "Mutation.revoke_api_key":
        return {"id": (await server.key_of(owner))[0]}
    if name == "Query.api_keys":
        return {"user": owner}
    if name in ("Subscription.queue_updates", "Subscription.events"):
        await server.session_of(owner)
        return {"after": str(server.stage.state.revision - 1)}
    if name == "Subscription.session_updates":
        return {"id": await server.session_of(owner)}
    if name in OF_OUTPUT:
        return {"id": server.running[owner]}
    if name in ("Mutation.extend_reservation", "Mutation.give_back_reservation"):
        end = {"ends_at": "1970-01-01T02:30:00Z"} if "ends_at" in field.args else {}
        return {"name": await server.booking_of(owner)} | end
    if _changes_session(name):
        return _about_session(name, await server.session_of(owner))
    return {"id": AGENT} if "id" in field.args else {}


def _about_session(name: str, session_id: str) -> dict[str, Any]:
    if name == "Mutation.update_session_priority":
        return {"input": {"id": session_id, "priority": "low"}}
    if name == "Mutation.update_session_priorities":
        return {"input": {"ids": [session_id], "priority": "low"}}
    if name == "Mutation.change_sessions":
        return {"input": {"ids": [session_id], "action": "cancel"}}
    return {"input": {"id": session_id}}


def _changes_session(name: str) -> bool:
    """Whether it changes one existing session."""
    return ROOTS[name] is CHANGE


async def _outcome(
    server: AuthorisationServer, name: str, user: str | None, query: str, variables: dict[str, Any]
) -> str:
    if name.startswith("Subscription."):
        status, body = await server.first_event(user, query, variables)
    else:
        response = await server.query(user, query, variables)
        status, body = response.status_code, response.json()
    codes = {error["extensions"].get("code") for error in body.get("errors", ()) if "extensions" in error}
    assert status in (200, 401), body
    if status == 401:
        assert codes == {"unauthenticated"}
        assert "data" not in body
        return "unauthenticated"
    answer = (body.get("data") or {}).get(name.partition(".")[2])
    codes |= {answer["code"]} if isinstance(answer, dict) and "code" in answer else set()
    codes |= (
        {one["code"] for one in answer.get("results", ()) if one.get("code")} if isinstance(answer, dict) else set()
    )
    assert "internal" not in codes, body
    assert not (_changes_session(name) and codes & {"not_found", "invalid_request"}), body
    # Another user's key looks like a missing one.
    hides = name == "Mutation.revoke_api_key" and codes == {"not_found"}
    return "refused" if codes & REFUSED or hides else "allowed"


async def test_an_owner_who_may_only_read_is_told_so(server: AuthorisationServer) -> None:
    query = "mutation ($id: ID!) { cancel_session(input: {id: $id}) { ... on Error { code message } } }"
    body = (await server.query("viewer", query, {"id": await server.session_of("viewer")})).json()
    answer = body["data"]["cancel_session"]
    assert answer["code"] == "forbidden"
    assert answer["message"].startswith("viewer may only read")
    assert "belongs to" not in answer["message"]
