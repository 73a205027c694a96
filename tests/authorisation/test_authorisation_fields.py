"""Session and kernel fields: visibility to the owner, to project members, and to others."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from aliquot_schema.identity.access import FIELDS, KERNEL_FIELDS, SESSION_FIELDS, Visibility
from aliquot_schema.ids import kernel_id
from aliquot_schema.views.accounts import UserChanges
from authorisation_queries import SCHEMA, leaves
from authorisation_server import ADMIN, OTHER, AuthorisationServer, authorisation_server

pytestmark = pytest.mark.anyio

SESSION = f"query ($id: ID!) {{ session(id: $id) {leaves('Session')} }}"
PROJECT = "vision"
SIGHTS = {
    "viewer": Visibility.EVERYBODY,
    "user": Visibility.EVERYBODY,
    "operator": Visibility.MEMBER,
    "admin": Visibility.OWNER,
}


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_every_field_of_an_owned_type_has_a_rule(name: str) -> None:
    type_ = SCHEMA.type_map[name]
    assert set(FIELDS[name]) == set(type_.fields)  # type: ignore[attr-defined]  # it is an object type


@pytest.fixture(scope="module")
async def server(anyio_backend: str) -> AsyncIterator[AuthorisationServer]:
    """A separate scene, on which sessions can start."""
    async with authorisation_server() as found:
        await found.stage.create_project(PROJECT)
        yield found


async def failed_session(server: AuthorisationServer) -> str:
    """A session with a value in every field that can be hidden."""
    session_id = await server.session_of(
        OTHER,
        argv=("train", "--password", "hush"),
        environment=[("TOKEN", "hush")],
        working_directory="/home/otto/hush",
        run_id="run-hush",
        tags=[("paper", "hush")],
        slots=[("cuda.shares", "0.01")],
        held=False,
        project=PROJECT,
    )
    await server.stage.advance()
    kernel = kernel_id(server.stage.session(session_id).id, attempt=1, rank=0)  # type: ignore[arg-type]  # an id
    server.stage.executor.end_kernel(kernel, code=3)
    await server.stage.settle()
    return session_id


async def seen(server: AuthorisationServer, user: str, session_id: str) -> dict[str, Any]:
    body = (await server.query(user, SESSION, {"id": session_id})).json()
    assert "errors" not in body, body
    return dict(body["data"]["session"])


@pytest.mark.parametrize("user", sorted(SIGHTS))
async def test_each_role_sees_only_the_permitted_fields_of_other_users_sessions(
    server: AuthorisationServer, user: str
) -> None:
    await _check(server, user, SIGHTS[user])


async def test_project_members_see_the_member_fields_of_a_session(server: AuthorisationServer) -> None:
    await server.accounts.update_user(ADMIN, "user", UserChanges(projects=(PROJECT,)), None)
    try:
        await _check(server, "user", Visibility.MEMBER)
    finally:
        await server.accounts.update_user(ADMIN, "user", UserChanges(projects=()), None)


async def _check(server: AuthorisationServer, user: str, sight: Visibility) -> None:
    session_id = await failed_session(server)
    whole, found = await seen(server, OTHER, session_id), await seen(server, user, session_id)
    assert whole["hidden"] == []
    _compare("Session", whole, found, sight, SESSION_FIELDS)
    for mine, theirs in zip(whole["kernels"], found["kernels"], strict=True):
        _compare("Kernel", mine, theirs, sight, KERNEL_FIELDS)
    if sight is Visibility.EVERYBODY:
        assert "hush" not in repr(found)


def _compare(kind: str, whole: dict[str, Any], found: dict[str, Any], sight: Visibility, hidden: Any) -> None:
    """Compare each field: its value, or the substitute where it is hidden."""
    stands = {name: shown for some in hidden.values() for name, shown in some.items()}
    for name, least in FIELDS[kind].items():
        if name in ("hidden", "kernels") or name not in whole:
            continue
        if sight >= least:
            assert found[name] == whole[name], name
        else:
            assert found[name] == (list(stands[name]) if isinstance(stands[name], tuple) else stands[name]), name
    if kind == "Session":
        assert set(found["hidden"]) == {name for name, least in FIELDS[kind].items() if sight < least}
