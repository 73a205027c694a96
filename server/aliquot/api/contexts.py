"""Contexts: who asks, and whom the resolvers may ask for them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.requests import HTTPConnection

from aliquot.api.authentication import TokenAuth
from aliquot.api.envelope import REQUEST_ID
from aliquot_schema.graphql.context import Administrator, Context, RayView, Reader, Watcher, Writer
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller
from aliquot_schema.server_views import ALONE, OrchestratorView

ANONYMOUS = UserId("")


@dataclass(slots=True, kw_only=True)
class SocketContext(Context):
    """The context of a WebSocket, made once. Its caller is nobody until connection_init was accepted."""

    connection: HTTPConnection
    connection_params: dict[str, object] = field(default_factory=dict)
    """The payload of connection_init; Strawberry sets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """Makes contexts."""

    reader: Reader
    writer: Writer
    watcher: Watcher
    admin: Administrator
    auth: TokenAuth
    ray: Callable[[], RayView | None] = lambda: None
    orchestrator: Callable[[], OrchestratorView] = lambda: ALONE

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
            ray=self.ray,
            orchestrator=self.orchestrator,
        )

    def of_socket(self, connection: HTTPConnection) -> SocketContext:
        """The context of a WebSocket that has not said yet who it is."""
        return SocketContext(
            caller=Caller(user=ANONYMOUS, request_id=request_id_of(connection)),
            reader=self.reader,
            writer=self.writer,
            watcher=self.watcher,
            admin=self.admin,
            ray=self.ray,
            orchestrator=self.orchestrator,
            connection=connection,
        )

    def admit(self, context: SocketContext) -> None:
        """Find out who opened the WebSocket: by connection_init when it says, else by header or cookie.

        Raises:
            Unauthenticated: nobody that is known.
        """
        if {"authorization", "token"} & {key.lower() for key in context.connection_params}:
            user = self.auth.of_connection(context.connection_params)
            context.caller = Caller(user=user, request_id=context.caller.request_id)
        else:
            context.caller = self.caller_of(context.connection)

    def caller_of(self, request: HTTPConnection) -> Caller:
        """Who sent a request.

        Raises:
            Unauthenticated: it does not say.
        """
        user = self.auth.of_headers(request.headers.get("authorization"), request.cookies)
        return Caller(user=user, request_id=request_id_of(request))


def request_id_of(request: HTTPConnection) -> str:
    """The id that the envelope gave this request."""
    request_id: str = request.scope[REQUEST_ID]
    return request_id
