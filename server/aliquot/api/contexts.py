"""Contexts: who asks, and whom the resolvers may ask for them."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from starlette.requests import HTTPConnection

from aliquot.api.authentication import TokenAuth, caller_of
from aliquot.api.request_ids import request_id_of
from aliquot.service.people import Bearer
from aliquot_schema.graphql.context import (
    Accountant,
    Administrator,
    Context,
    Historian,
    Outsider,
    RayView,
    Reader,
    Watcher,
    Writer,
)
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller, Role
from aliquot_schema.server_views import ALONE, OrchestratorView

ANONYMOUS = UserId("")


@dataclass(slots=True, kw_only=True)
class SocketContext(Context):
    """The context of a WebSocket, made once. Its caller is nobody until connection_init was accepted."""

    connection: HTTPConnection
    connection_params: dict[str, object] = field(default_factory=dict)
    """The payload of connection_init; Strawberry sets it."""
    bearer: Bearer | None = None
    """Who was let in."""
    until_closed: ExitStack = field(default_factory=ExitStack)
    """What is held while the socket is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """Makes contexts."""

    reader: Reader
    writer: Writer
    watcher: Watcher
    admin: Administrator
    accounts: Accountant
    auth: TokenAuth
    ray: Callable[[], RayView | None] = lambda: None
    orchestrator: Callable[[], OrchestratorView] = lambda: ALONE
    outside: Outsider | None = None
    historian: Historian | None = None

    def of_request(self, request: HTTPConnection) -> Context:
        """The context of one HTTP request.

        Raises:
            Unauthenticated: it does not say who sent it.
        """
        caller = self.caller_of(request)
        return Context(
            caller=caller,
            reader=self.reader,
            writer=self.writer,
            watcher=self.watcher,
            admin=self.admin,
            accounts=self.accounts,
            ray=self.ray,
            orchestrator=self.orchestrator,
            outside=self.outside,
            historian=self.historian,
        )

    def of_socket(self, connection: HTTPConnection) -> SocketContext:
        """The context of a WebSocket that has not said yet who it is."""
        return SocketContext(
            caller=Caller(user=ANONYMOUS, request_id=request_id_of(connection), role=Role.VIEWER),
            reader=self.reader,
            writer=self.writer,
            watcher=self.watcher,
            admin=self.admin,
            accounts=self.accounts,
            ray=self.ray,
            orchestrator=self.orchestrator,
            outside=self.outside,
            historian=self.historian,
            connection=connection,
        )

    async def admit(self, context: SocketContext) -> None:
        """Find out who opened the WebSocket: by connection_init when it says, else by header or cookie.

        Raises:
            Unauthenticated: nobody that is known.
        """
        connection = context.connection
        if {"authorization", "token"} & {key.lower() for key in context.connection_params}:
            await self.auth.look_at_connection(context.connection_params)
            context.bearer = self.auth.of_connection(context.connection_params)
        else:
            # Looked at with the handshake, which may be a while ago.
            await self.auth.look_at(connection.headers.get("authorization"))
            context.bearer = self.auth.of_headers(connection.headers.get("authorization"), connection.cookies)
        context.caller = caller_of(context.bearer, request_id=context.caller.request_id)

    def caller_of(self, request: HTTPConnection) -> Caller:
        """See `TokenAuth.authenticate`."""
        return self.auth.authenticate(request)
