"""Refusals of sessions of others: they name the session as its owner does."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from aliquot.service.access import (
    check_may_change,
    check_may_read_output,
    check_may_release,
    check_may_submit,
    check_project,
    check_role,
)
from aliquot.service.state.identities import Identities
from aliquot_schema.errors import Forbidden
from aliquot_schema.identity.accounts import ApiKey, KeyScope, User
from aliquot_schema.ids import KeyId, ProjectId, UserId
from aliquot_schema.requests import Caller, Role
from aliquot_schema.sessions import Session
from core_records import session

OTHER = Caller(user=UserId("ben"), request_id="req_1", role=Role.USER)


@pytest.mark.parametrize("check", [check_may_change, check_may_read_output])
def test_a_refusal_has_the_name_and_the_id_of_the_session(check: Callable[[Caller, Session], None]) -> None:
    one = session(name="train")
    with pytest.raises(Forbidden, match=rf"^train \({one.id}\) belongs to ann; "):
        check(OTHER, one)


@pytest.mark.parametrize("check", [check_may_change, check_may_read_output])
def test_a_refusal_says_when_only_the_scope_of_the_key_prevents_it(check: Callable[[Caller, Session], None]) -> None:
    narrow = replace(OTHER, own_role=Role.ADMIN)
    with pytest.raises(Forbidden, match="; your role admin allows it, but the scope of this key does not"):
        check(narrow, session())
    with pytest.raises(Forbidden, match="the scope of this key does not"):
        check_project(narrow, ProjectId("vision"))
    with pytest.raises(Forbidden, match=r"only its owner[^;]*$"):
        check(replace(OTHER, role=Role.VIEWER, own_role=Role.USER), session())


def test_a_user_whose_role_suffices_but_whose_key_is_narrow_is_not_sent_to_others() -> None:
    narrow, hint = replace(OTHER, own_role=Role.OPERATOR), "your role operator allows it, but the scope of this key"
    with pytest.raises(Forbidden, match=f"at least the scope operate; {hint}"):
        check_role(narrow, Role.OPERATOR)
    with pytest.raises(Forbidden, match=r"at least the scope admin; ask one of the admins$"):
        check_role(narrow, Role.ADMIN)
    with pytest.raises(Forbidden, match=r"^this key of ben may only read; .* your role operator allows it"):
        check_may_submit(replace(narrow, role=Role.VIEWER))
    with pytest.raises(Forbidden, match=r"^ben may only read; .*scope submit; ask an admin for it$"):
        check_may_submit(replace(OTHER, role=Role.VIEWER))


def test_the_bearer_of_a_narrow_key_keeps_the_role_of_the_user() -> None:
    people = Identities()
    people.put_user(User(id=UserId("olga"), role=Role.OPERATOR, created_us=1))
    for scope in (KeyScope.SUBMIT, KeyScope.ADMIN):
        name = KeyId(f"key_{scope}")
        people.put_key(ApiKey(id=name, user=UserId("olga"), name="k", scope=scope, digest="", created_us=1))
    narrow, wide = (people.bearer(KeyId(f"key_{scope}"), now_us=2) for scope in (KeyScope.SUBMIT, KeyScope.ADMIN))
    assert narrow is not None
    assert (narrow.role, narrow.own_role) == (Role.USER, Role.OPERATOR)
    assert wide is not None
    assert (wide.role, wide.own_role) == (Role.OPERATOR, None)


def test_who_may_release_a_session_that_its_owner_holds_is_named() -> None:
    member = replace(OTHER, projects=(ProjectId("default"),))
    with pytest.raises(Forbidden, match="is held by ann; only ann and operators may release it"):
        check_may_release(member, session(held_by=UserId("ann")), users={})
    with pytest.raises(Forbidden, match="is held by olga; only an operator may release it"):
        check_may_release(member, session(held_by=UserId("olga")), users={})
