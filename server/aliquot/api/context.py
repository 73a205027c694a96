"""GraphQL contexts: the caller and the ports that resolvers use."""

from contextlib import ExitStack
from dataclasses import dataclass, field

from msgspec import Struct
from starlette.requests import HTTPConnection

from aliquot.api.authentication import TokenAuth, caller_of
from aliquot.api.encoding import request_id_of
from aliquot.service.state.identities import AuthenticatedCaller
from aliquot_schema.graphql.context import Context, Services
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller, Role

ANONYMOUS = UserId("")


@dataclass(slots=True, kw_only=True)
class SocketContext(Context):
    """Context of a WebSocket. Its caller is anonymous until connection_init is accepted."""

    connection: HTTPConnection
    connection_params: dict[str, object] = field(default_factory=dict)
    """Payload of connection_init; set by Strawberry."""
    bearer: AuthenticatedCaller | None = None
    """The authenticated bearer."""
    until_closed: ExitStack = field(default_factory=ExitStack)
    """Released when the socket closes."""


class Contexts(Struct, frozen=True, kw_only=True):
    """Makes contexts."""

    services: Services
    auth: TokenAuth

    def of_request(self, request: HTTPConnection) -> Context:
        """Context of one HTTP request.

        Raises:
            Unauthenticated: it has no valid credentials.
        """
        return Context(caller=self.caller_of(request), services=self.services)

    def of_socket(self, connection: HTTPConnection) -> SocketContext:
        """Context of a WebSocket that is not authenticated yet."""
        return SocketContext(
            caller=Caller(user=ANONYMOUS, request_id=request_id_of(connection), role=Role.VIEWER),
            services=self.services,
            connection=connection,
        )

    async def admit(self, context: SocketContext) -> None:
        """Authenticate a WebSocket: by connection_init if that has credentials, else by header or cookie.

        Raises:
            Unauthenticated: there are no valid credentials.
        """
        connection = context.connection
        if {"authorization", "token"} & {key.lower() for key in context.connection_params}:
            await self.auth.resolve_connection(context.connection_params)
            context.bearer = self.auth.of_connection(context.connection_params)
        else:
            # Validated with the handshake, which may be a while ago.
            await self.auth.resolve(connection.headers.get("authorization"))
            context.bearer = self.auth.of_headers(connection.headers.get("authorization"), connection.cookies)
        context.caller = caller_of(context.bearer, request_id=context.caller.request_id)

    def caller_of(self, request: HTTPConnection) -> Caller:
        """See `TokenAuth.authenticate`."""
        return self.auth.authenticate(request)
