"""Connections close when their key ends."""

import asyncio

import pytest

from aliquot.api.authentication import TokenAuth
from aliquot.api.connections import OpenConnections
from aliquot.service.state.identities import AuthenticatedCaller, Identities
from aliquot_schema.identity.accounts import ApiKey, KeyScope, Role, User
from aliquot_schema.ids import KeyId, UserId

LEFT_S = 0.05


def test_a_connection_with_an_unknown_key_is_ended_immediately() -> None:
    auth = TokenAuth("the-servers-own-token", UserId("root"))
    ended: list[bool] = []
    with OpenConnections(auth).holding(
        AuthenticatedCaller(user=UserId("bob"), role=Role.USER, key_id=KeyId("key_1")), ended.append
    ):
        assert ended == [False]


@pytest.mark.anyio
async def test_connections_end_with_their_key(anyio_backend: object) -> None:
    now, people = 1000.0, Identities()
    people.put_user(User(id=UserId("bob"), role=Role.USER))
    key = ApiKey(
        id=KeyId("key_1"),
        user=UserId("bob"),
        name="x",
        scope=KeyScope.READ,
        digest="",
        expires_us=int((now + LEFT_S) * 1e6),
    )
    people.put_key(key)
    auth = TokenAuth("the-servers-own-token", UserId("root"), people=people, now=lambda: now)
    bearer = auth.holder(key.id)
    assert bearer is not None
    ended = asyncio.Event()
    with OpenConnections(auth).holding(bearer, lambda _: ended.set()):
        assert not ended.is_set()
        now += LEFT_S
        async with asyncio.timeout(30):
            await ended.wait()
