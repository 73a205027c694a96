"""The real service behind the real HTTP face, with a user of every role, each with a key that allows everything."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson

from aliquot.api.application import create_app
from aliquot.api.authentication import TokenAuth
from aliquot.service.accounts.api_keys import Accounts
from aliquot.service.history.history import History
from aliquot_schema.bookings import Booking, BookingState
from aliquot_schema.identity.accounts import KeyScope, Role
from aliquot_schema.ids import BookingId, UserId
from aliquot_schema.requests import Caller, NewSession
from aliquot_schema.views.accounts import NewApiKey, NewUser
from api_server import listening
from api_service import accounts_of, face_of
from service_bench import agent
from service_stage import Stage, stage

OTHER = "otto"
"""A user, whose things are others' for everybody else."""
ADMIN = Caller(user=UserId("root"), request_id="req_test", role=Role.ADMIN)
AGENT = "a"
HOUR_US = 3_600_000_000


@dataclass
class AuthorisationServer:
    """What a test acts on."""

    stage: Stage
    accounts: Accounts
    url: str
    clients: dict[str | None, httpx.AsyncClient] = field(default_factory=dict)
    """By user; None = anonymous."""
    running: dict[str, str] = field(default_factory=dict)
    """A session of each user that has begun to print."""

    async def session_of(self, owner: str, **more: Any) -> str:
        """A queued session of a user."""
        request = {"argv": ("true",), "shell": None, "slots": [("cuda.device", "1")], "held": True} | more
        caller = Caller(user=UserId(owner), request_id="req_test", role=Role.ADMIN)
        return (await self.stage.sessions.create_session(caller, NewSession(**request))).session.id

    async def booking_of(self, owner: str) -> str:
        """A booking of a user, an hour from now, for two hours."""
        now_us = self.stage.clock.now_us()
        booking = Booking(
            id=BookingId(f"bkg_{owner}_{now_us}"),
            name="slot",
            owner=UserId(owner),
            starts_us=now_us + HOUR_US,
            ends_us=now_us + 3 * HOUR_US,
            state=BookingState.BOOKED,
            created_us=now_us,
        )
        return (await self.stage.journal.persist(lambda draft: draft.put(booking, "booked"), actor="test")).id

    async def key_of(self, owner: str) -> tuple[str, str]:
        """A new key of a user: (id, secret)."""
        made = await self.accounts.create_api_key(ADMIN, NewApiKey(user=owner, name="test", scope=KeyScope.ADMIN))
        return made.api_key.id, made.secret

    async def query(self, user: str | None, query: str, variables: dict[str, Any]) -> httpx.Response:
        """A query or mutation."""
        return await self.clients[user].post("/graphql", json={"query": query, "variables": variables})

    async def first_event(self, user: str | None, query: str, variables: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The status of a subscription, and the first that it tells."""
        body = {"query": query, "variables": variables}
        headers = {"accept": "text/event-stream"}
        async with (
            asyncio.timeout(60),
            self.clients[user].stream("POST", "/graphql", json=body, headers=headers) as answer,
        ):
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    return answer.status_code, orjson.loads(line.removeprefix("data: "))
                if line.startswith("{"):
                    return answer.status_code, orjson.loads(line)
            return answer.status_code, {}


@asynccontextmanager
async def authorisation_server() -> AsyncIterator[AuthorisationServer]:
    """Users are named as their roles."""
    async with AsyncExitStack() as stack:
        parts = await stack.enter_async_context(stage([agent(AGENT, devices=4)]))
        accounts = accounts_of(parts)
        auth = TokenAuth("the-servers-own-token", UserId("root"), people=parts.state.people)
        history = History(state=parts.state, queries=parts.queries, clock=parts.clock)
        deps = face_of(parts, accounts=accounts, auth=auth, history=history)
        port = await stack.enter_async_context(listening(create_app(deps), lifespan="off"))
        found = AuthorisationServer(parts, accounts, f"http://127.0.0.1:{port}")
        for name, role in ((OTHER, Role.USER), *((role.name.lower(), role) for role in Role)):
            await accounts.create_user(ADMIN, NewUser(name=name, role=role))
            _, secret = await found.key_of(name)
            headers = {"authorization": f"Bearer {secret}"}
            found.clients[name] = await stack.enter_async_context(
                httpx.AsyncClient(verify=False, base_url=found.url, headers=headers, timeout=60)
            )
            found.running[name] = await found.session_of(name, held=False, slots=[("cuda.shares", "0.01")])
        found.clients[None] = await stack.enter_async_context(
            httpx.AsyncClient(verify=False, base_url=found.url, timeout=60)
        )
        await found.stage.advance()
        yield found
