"""Malformed requests, and the request id in the ASGI scope."""

from typing import Final

from starlette.requests import HTTPConnection

REQUEST_ID: Final = "aliquot.request_id"
"""Key in the ASGI scope."""


class Malformed(Exception):
    """A request that is not a valid GraphQL request, with the HTTP status to answer."""

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


def request_id_of(request: HTTPConnection) -> str:
    """The id that `RequestLog` assigned to the request."""
    request_id: str = request.scope[REQUEST_ID]
    return request_id
