"""Accounts on several servers of one database: changes reach all by the log."""

import asyncio

import pytest

from aliquot.api.authentication import TokenAuth
from aliquot.api.connections import OpenConnections
from aliquot.service.access import Trust
from aliquot.service.use_cases import ServiceParts, SubmissionLimits
from aliquot_schema.errors import Unauthenticated
from aliquot_schema.identity.accounts import KeyScope, Role
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller
from aliquot_schema.views.accounts import NewApiKey, NewUser, UserChanges
from leader_servers import OneServer, servers_on
from service_bench import agent

pytestmark = pytest.mark.anyio

ADMIN = Caller(user=UserId("root"), request_id="req_test", role=Role.ADMIN)


def shared(number: int) -> ServiceParts:
    """For users that trust each other."""
    return ServiceParts(admission=SubmissionLimits(trust=Trust.SHARED, per_minute=None))


def oidc_authenticator(server: OneServer) -> tuple[TokenAuth, OpenConnections]:
    """A server's authentication."""
    auth = TokenAuth("the-servers-own-token", UserId("root"), people=server.cases.state.people)
    open_connections = OpenConnections(auth)
    server.cases.journal.subscribe(open_connections.note)
    return auth, open_connections


@pytest.mark.parametrize("told_to", [0, 1], ids=["the leader", "a follower"])
async def test_a_key_works_at_all_servers_and_at_none_after_its_revocation_at_one(
    database_url: str, told_to: int
) -> None:
    async with servers_on(database_url, [agent("a", devices=1)], parts=shared) as servers:
        told, other = servers.all[told_to], servers.all[1 - told_to]
        accounts = told.cases.accounts
        await accounts.create_user(ADMIN, NewUser(name="bob", role=Role.USER))
        made = await accounts.create_api_key(ADMIN, NewApiKey(user="bob", name="x", scope=KeyScope.SUBMIT))
        doors = [oidc_authenticator(server) for server in servers.all]
        await other.until(lambda: made.api_key.id in other.cases.state.people.keys)
        bearers = [auth.of_text(made.secret) for auth, _ in doors]
        assert {bearer.user for bearer in bearers} == {"bob"}

        closed: list[asyncio.Event] = [asyncio.Event() for _ in doors]
        with (
            doors[0][1].holding(bearers[0], lambda _: closed[0].set()),
            doors[1][1].holding(bearers[1], lambda _: closed[1].set()),
        ):
            await accounts.revoke_api_key(ADMIN, made.api_key.id)
            async with asyncio.timeout(60):
                await asyncio.gather(*(event.wait() for event in closed))
        for auth, _ in doors:
            with pytest.raises(Unauthenticated):
                auth.of_text(made.secret)


async def test_one_user_created_at_two_servers_is_created_once(database_url: str) -> None:
    async with servers_on(database_url, [agent("a", devices=1)], parts=shared) as servers:
        asked = NewUser(name="bob", role=Role.USER)
        made = await asyncio.gather(
            *(server.cases.accounts.create_user(ADMIN, asked) for server in servers.all), return_exceptions=True
        )
        assert sum(not isinstance(one, BaseException) for one in made) == 1, made
        first, second = servers.all
        await second.cases.accounts.update_user(ADMIN, "bob", UserChanges(role=Role.VIEWER), None)
        await first.until(lambda: first.cases.state.people.users[UserId("bob")].role is Role.VIEWER)
