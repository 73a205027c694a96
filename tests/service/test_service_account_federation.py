"""Users of an identity provider: identified by subject, named once, and updated from then on."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.clock import RandomIds
from aliquot.errors import ConfigurationError
from aliquot.service.access import Trust, check_apart
from aliquot.service.accounts.api_keys import Accounts
from aliquot.service.accounts.federation import Federation, Identity
from aliquot.service.use_cases import ServiceParts, SubmissionLimits, UseCases
from aliquot_schema.errors import InvalidRequest, Unauthenticated
from aliquot_schema.identity.accounts import Role, User
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller
from aliquot_schema.views.accounts import NewUser, UserChanges
from api_service import accounts_of
from leader_servers import OneServer, servers_on
from service_bench import agent
from service_stage import Stage, stage

pytestmark = pytest.mark.anyio

ROOT = Caller(user=UserId("root"), request_id="req_test", role=Role.ADMIN)
ANN = Identity(
    subject="https://id#1", name="ann", role=Role.USER, has_role=False, projects=None, unix_name=None, issued_us=0
)


def federation_of(on: Stage, *, trust: Trust = Trust.SHARED, is_open: bool = True) -> tuple[Federation, Accounts]:
    accounts = accounts_of(on, trust=trust)
    found = Federation(
        users=accounts,
        people=on.state.people,
        journal=on.journal,
        clock=on.clock,
        is_open=is_open,
        owner=UserId("root"),
    )
    return found, accounts


def claims(on: Stage, **more: Any) -> Identity:
    """The claims of a token issued now."""
    return replace(ANN, issued_us=on.clock.now_us(), **more)


async def test_concurrent_first_sign_ins_create_the_user_once() -> None:
    async with stage([]) as on:
        federation, _ = federation_of(on)
        names = await asyncio.gather(*(federation.user_of(claims(on)) for _ in range(4)))
        assert set(names) == {"ann"}
        user = on.state.people.users[UserId("ann")]
        assert (user.role, user.subject, user.version) == (Role.USER, ANN.subject, 1)
        assert [event.actor for event in await on.events() if event.kind == "user.created"] == ["system:oidc"]


async def test_a_user_created_by_an_admin_is_matched_by_name_once_and_then_by_subject() -> None:
    async with stage([]) as on:
        federation, accounts = federation_of(on, is_open=False)
        with pytest.raises(Unauthenticated, match="no user ann"):
            await federation.user_of(claims(on))
        await accounts.create_user(ROOT, NewUser(name="ann", role=Role.OPERATOR))
        assert await federation.user_of(claims(on)) == "ann"
        assert on.state.people.users[UserId("ann")].role is Role.OPERATOR
        with pytest.raises(Unauthenticated, match="belongs to another identity"):
            await federation.user_of(claims(on, subject="https://id#2"))
        assert await federation.user_of(claims(on, name="renamed")) == "ann"


async def test_reserved_and_invalid_user_names_are_refused() -> None:
    async with stage([]) as on:
        federation, _ = federation_of(on)
        for name in ("root", "system:allocator", "a/b", "", "x" * 65):
            with pytest.raises(Unauthenticated):
                await federation.user_of(claims(on, name=name))
        assert on.state.people.users == {}


async def test_only_newer_tokens_change_the_user_record() -> None:
    async with stage([]) as on:
        federation, _ = federation_of(on)
        before = claims(on, has_role=True, role=Role.ADMIN, projects=("a", "b"))
        await federation.user_of(before)
        await federation.user_of(claims(on, has_role=True, role=Role.VIEWER, projects=("a",)))
        await federation.user_of(before)
        user = on.state.people.users[UserId("ann")]
        assert (user.role, user.projects, user.version) == (Role.VIEWER, ("a",), 2)


async def test_older_tokens_change_nothing_when_the_clock_of_the_provider_is_ahead() -> None:
    async with stage([]) as on:
        federation, _ = federation_of(on)
        await federation.user_of(claims(on, has_role=True))
        ahead = on.clock.now_us() + 20_000_000
        admin = replace(ANN, has_role=True, role=Role.ADMIN, issued_us=ahead)
        viewer = replace(admin, role=Role.VIEWER, issued_us=ahead + 1_000_000)
        for identity in (admin, viewer, admin, viewer):
            await federation.user_of(identity)
        user = on.state.people.users[UserId("ann")]
        assert (user.role, user.version) == (Role.VIEWER, 3)


async def test_a_user_without_any_role_group_is_refused_and_loses_role_and_projects() -> None:
    async with stage([]) as on:
        federation, _ = federation_of(on)
        out = claims(on, has_role=True, role=None)
        with pytest.raises(Unauthenticated, match="oidc-roles"):
            await federation.user_of(out)
        assert on.state.people.users == {}
        await federation.user_of(claims(on, has_role=True, role=Role.OPERATOR, projects=("a",)))
        with pytest.raises(Unauthenticated, match="oidc-roles"):
            await federation.user_of(out)
        assert on.state.people.users[UserId("ann")].role is Role.OPERATOR, "that token was older"
        for _ in range(2):
            with pytest.raises(Unauthenticated, match="oidc-roles"):
                await federation.user_of(claims(on, has_role=True, role=None, projects=()))
        user = on.state.people.users[UserId("ann")]
        assert (user.role, user.projects, user.version) == (Role.VIEWER, (), 2)


async def test_a_new_user_whose_name_differs_only_in_case_is_refused() -> None:
    async with stage([]) as on:
        federation, accounts = federation_of(on)
        await federation.user_of(claims(on))
        for name, words in (
            ("Ann", "the name Ann differs only in case from the existing user ann"),
            ("Root", "the name Root differs only in case from the existing user root"),
            ("root", "server's"),
        ):
            with pytest.raises(Unauthenticated, match=words):
                await federation.user_of(claims(on, name=name, subject="https://id#2"))
        await accounts.create_user(ROOT, NewUser(name="ANN", role=Role.VIEWER))
        assert await federation.user_of(claims(on, name="ANN", subject="https://id#2")) == "ANN"


async def test_forgetting_the_identity_gives_a_user_name_to_a_new_identity() -> None:
    async with stage([]) as on:
        federation, accounts = federation_of(on)
        await federation.user_of(claims(on))
        later = claims(on, subject="https://new#1")
        with pytest.raises(Unauthenticated, match="--forget-identity"):
            await federation.user_of(later)
        await accounts.update_user(ROOT, "ann", UserChanges(forget_identity=True), None)
        assert on.state.people.by_subject(ANN.subject) is None
        assert await federation.user_of(later) == "ann"
        assert on.state.people.by_subject(later.subject) is on.state.people.users[UserId("ann")]


async def test_a_disabled_user_stays_disabled_after_a_new_token() -> None:
    async with stage([]) as on:
        federation, accounts = federation_of(on)
        await federation.user_of(claims(on))
        await accounts.disable_user(ROOT, "ann", None)
        await federation.user_of(claims(on, has_role=True, role=Role.ADMIN))
        user = on.state.people.users[UserId("ann")]
        assert (user.disabled, user.role) == (True, Role.USER)
        await accounts.create_user(ROOT, NewUser(name="bob", role=Role.USER))
        await accounts.disable_user(ROOT, "bob", None)
        with pytest.raises(Unauthenticated, match="disabled"):
            await federation.user_of(claims(on, name="bob", subject="https://id#2"))


async def test_account_rules_apply_to_federated_users() -> None:
    async with stage([]) as on:
        alone, _ = federation_of(on, trust=Trust.ALONE)
        with pytest.raises(Unauthenticated, match="single-trust-domain"):
            await alone.user_of(claims(on))
        assert await alone.user_of(claims(on, role=Role.VIEWER)) == "ann"
        apart, _ = federation_of(on, trust=Trust.SEPARATE)
        bob = claims(on, name="bob", subject="https://id#2", unix_name="bob1")
        assert await apart.user_of(bob) == "bob"
        assert on.state.people.users[UserId("bob")].account == "bob1"
        with pytest.raises(Unauthenticated, match="would not be isolated"):
            await apart.user_of(replace(bob, name="eve", subject="https://id#3"))
        with pytest.raises(Unauthenticated, match="root"):
            await apart.user_of(replace(bob, name="eve", subject="https://id#3", unix_name="root"))


def apart(number: int) -> ServiceParts:
    """For servers that give each user a separate Unix account."""
    return ServiceParts(admission=SubmissionLimits(trust=Trust.SEPARATE, per_minute=None))


def federated(server: OneServer) -> Federation:
    cases = server.cases
    return Federation(
        users=cases.accounts,
        people=cases.state.people,
        journal=cases.journal,
        clock=cases.clock,
        is_open=True,
        owner=UserId("root"),
    )


async def test_sign_ins_of_one_identity_at_two_servers_create_one_user(database_url: str) -> None:
    async with servers_on(database_url, [agent("a", devices=1)], parts=apart) as servers:
        both = [federated(server) for server in servers.all]
        for number in range(5):
            identity = replace(ANN, name=f"user{number}", subject=f"https://id#{number}", issued_us=2**60)
            names = await asyncio.gather(*(one.user_of(identity) for one in both))
            assert set(names) == {f"user{number}"}


async def test_two_servers_give_one_unix_account_to_one_user(database_url: str) -> None:
    async with servers_on(database_url, [agent("a", devices=1)], parts=apart) as servers:
        offices = [server.cases.accounts for server in servers.all]
        for number in range(5):
            asked = [
                NewUser(name=f"{who}{number}", role=Role.USER, unix_name=f"unix{number}") for who in ("ann", "bob")
            ]
            made = await asyncio.gather(
                *(office.create_user(ROOT, new) for office, new in zip(offices, asked, strict=True)),
                return_exceptions=True,
            )
            assert sorted(type(one).__name__ for one in made) == ["InvalidRequest", "UserChanged"], made
        await offices[0].create_user(ROOT, NewUser(name="cat", role=Role.USER))
        await offices[1].create_user(ROOT, NewUser(name="dan", role=Role.USER))
        changed = await asyncio.gather(
            offices[0].update_user(ROOT, "cat", UserChanges(unix_name="same"), None),
            offices[1].update_user(ROOT, "dan", UserChanges(unix_name="same"), None),
            return_exceptions=True,
        )
        assert sum(isinstance(one, InvalidRequest) for one in changed) == 1, changed


def test_a_server_without_shared_accounts_names_the_users_who_share_one() -> None:
    ann, bob = (User(id=UserId(name), role=Role.USER, unix_name="team") for name in ("ann", "bob"))
    check_apart(Trust.SHARED, [ann, bob])
    check_apart(Trust.SEPARATE, [ann, replace(bob, disabled=True), replace(ann, id=UserId("cat"), unix_name=None)])
    with pytest.raises(ConfigurationError, match=r"team is used by ann and bob.*--single-trust-domain.*user set"):
        check_apart(Trust.SEPARATE, [bob, ann])
    with pytest.raises(ConfigurationError, match="nobody is used by ann"):
        check_apart(Trust.SEPARATE, [replace(ann, unix_name="nobody")])


async def test_a_server_with_separate_accounts_does_not_start_while_users_share_an_account() -> None:
    """So a server that must refuse never joins the election."""
    async with stage([]) as on:
        accounts = accounts_of(on, trust=Trust.SHARED)
        for name in ("ann", "bob"):
            await accounts.create_user(ROOT, NewUser(name=name, role=Role.USER, unix_name="team"))
        with pytest.raises(ConfigurationError, match="team is used by ann and bob"):
            UseCases(
                store=on.store, clock=on.clock, ids=RandomIds(), outputs=on.executor, state=on.state, parts=apart(0)
            )
