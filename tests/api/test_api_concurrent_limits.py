"""Limits per user on sockets hold under concurrent requests."""

import asyncio
import json
from contextlib import AsyncExitStack

import pytest
import websockets

from aliquot.api.graphql.sockets import TOO_MANY_SOCKETS
from aliquot.api.limits import Limits
from oidc_server import oidc_server

pytestmark = pytest.mark.anyio

ALLOWED = 5
WAIT_S = 120
KINDS = [websockets.Subprotocol("graphql-transport-ws")]


async def test_simultaneous_sockets_of_a_user_do_not_exceed_the_limit() -> None:
    async with (
        oidc_server("https://id.example.org", limits=Limits(sockets_per_user=ALLOWED)) as on,
        AsyncExitStack() as stack,
    ):
        address = on.url.replace("http", "ws") + "/graphql"
        sockets = [await stack.enter_async_context(websockets.connect(address, subprotocols=KINDS)) for _ in range(60)]
        hello = json.dumps({"type": "connection_init", "payload": {"token": "the-servers-own-token"}})

        async def let_in(socket: websockets.ClientConnection) -> bool:
            await socket.send(hello)
            try:
                return json.loads(await asyncio.wait_for(socket.recv(), WAIT_S))["type"] == "connection_ack"
            except websockets.ConnectionClosed:
                return socket.close_code != TOO_MANY_SOCKETS

        found = await asyncio.gather(*(let_in(socket) for socket in sockets))
        assert sum(found) == ALLOWED
        for socket in sockets:
            await socket.close()
        another = await stack.enter_async_context(websockets.connect(address, subprotocols=KINDS))
        assert await let_in(another)
