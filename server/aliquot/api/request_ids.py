"""Ids of requests: given by the envelope, read by everybody within."""

from typing import Final

from starlette.requests import HTTPConnection

REQUEST_ID: Final = "aliquot.request_id"
"""The key in the ASGI scope."""


def request_id_of(request: HTTPConnection) -> str:
    """The id that the envelope gave this request."""
    request_id: str = request.scope[REQUEST_ID]
    return request_id
