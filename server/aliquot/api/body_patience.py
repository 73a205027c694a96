"""Patience with bodies: who sends one byte now and then holds a request, and a buffer, only for so long."""

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aliquot.api.refusals import refusal


class BodyPatience:
    """Ends a request with 408 whose body is not there in time."""

    def __init__(self, app: ASGIApp, *, body_s: float) -> None:
        self._app = app
        self._body_s = body_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, and look at the clock while the body comes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        deadline = asyncio.get_running_loop().time() + self._body_s
        is_there = False

        async def receive_in_time() -> Message:
            nonlocal is_there
            if is_there:  # what comes now is the client's leaving
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408) from None
            is_there = not message.get("more_body", False)
            return message

        await self._app(scope, receive_in_time, send)


def body_too_slow(request: Request, _error: Exception) -> Response:
    """Refuse."""
    response = refusal(request.scope, 408, "timeout", "The body did not come in time.")
    response.headers["connection"] = "close"
    return response
