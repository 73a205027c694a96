"""Looking at tokens that cannot be judged at once, before anything asks who is calling."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from aliquot.api.authentication import TokenAuth


class Looking:
    """Has the token of every request looked at; it refuses nobody."""

    def __init__(self, app: ASGIApp, *, auth: TokenAuth) -> None:
        self._app = app
        self._auth = auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Look, and pass on."""
        if scope["type"] in ("http", "websocket"):
            await self._auth.look_at(Headers(scope=scope).get("authorization"))
        await self._app(scope, receive, send)
