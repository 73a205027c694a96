"""Encoding: content negotiation, JSON with limits on its size, malformed requests, and the id of a request.

Source: GraphQL over HTTP, media types; RFC 9110, 12.5.1.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from starlette.requests import HTTPConnection
from starlette.responses import Response

RESPONSE: Final = "application/graphql-response+json"
JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"

_ANSWERS: Final = {
    RESPONSE: RESPONSE,
    EVENTS: EVENTS,
    JSON: JSON,
    "application/*": JSON,
    "*/*": JSON,
}


def negotiated(accept: str | None) -> str | None:
    """Media type of the response; None when the client accepts none of ours.

    Without an Accept header it is plain JSON. Among equal qualities the more specific type wins.
    """
    if not accept:
        return JSON
    welcome: dict[str, float] = {}
    for part in accept.split(","):
        name, _, parameters = part.strip().lower().partition(";")
        answer = _ANSWERS.get(name.strip())
        if answer is not None:
            welcome[answer] = max(welcome.get(answer, 0.0), _quality(parameters))
    best = max((RESPONSE, EVENTS, JSON), key=lambda name: welcome.get(name, 0.0))
    return best if welcome.get(best, 0.0) > 0 else None


def is_json(content_type: str | None) -> bool:
    """Whether a content type is JSON in UTF-8, which is also the default charset."""
    name, _, parameters = (content_type or "").lower().partition(";")
    charset = _parameter(parameters, "charset")
    return name.strip() == JSON and charset in (None, "utf-8", "utf8")


def _quality(parameters: str) -> float:
    try:
        return float(_parameter(parameters, "q") or 1.0)
    except ValueError:
        return 0.0


def _parameter(parameters: str, name: str) -> str | None:
    for parameter in parameters.split(";"):
        key, _, value = parameter.partition("=")
        if key.strip() == name:
            return value.strip().strip('"')
    return None


PIECE_BYTES: Final = 64 * 1024
"""Size of the pieces in which a text is scanned."""


class AnswerTooLarge(Exception):
    """A response exceeds its byte limit."""


class ValueCount:
    """Counts the values of a JSON text that arrives in pieces, before it is decoded.

    A decoded text takes up to 60 times its size, and decoding cannot be interrupted. Every value but the first follows
    a comma or an opening bracket, so these are counted. Commas inside strings are excluded only when the count with
    them exceeds the limit, which most texts never reach.

    Args:
        values_max: a text with more values is rejected.
    """

    def __init__(self, values_max: int) -> None:
        self._values_max = values_max
        self._marks = 1
        """Includes those inside strings."""

    def is_within(self, piece: bytes) -> bool:
        """Add a piece; False = the text has to be checked with `exceeds`."""
        self._marks += _marks(piece)
        return self._marks <= self._values_max

    def exceeds(self, text: bytes | bytearray) -> Iterator[bool]:
        """Whether growing prefixes of a text have too many values; ends after the first True."""
        marks, quotes, held, is_inside = 1, 0, b"", False
        for start in range(0, len(text), PIECE_BYTES):
            piece = held + bytes(text[start : start + PIECE_BYTES])
            held = b""
            if b"\\" in piece:
                if (len(piece) - len(piece.rstrip(b"\\"))) % 2:
                    piece, held = piece[:-1], b"\\"
                piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
            parts = piece.split(b'"')
            marks += _marks(b"".join(parts[is_inside::2]))
            quotes += len(parts) - 1
            is_inside ^= len(parts) % 2 == 0
            # A member has at most two strings: more quotes are not valid JSON, and would be as slow to scan.
            is_above = marks > self._values_max or quotes > 4 * self._values_max + 4
            yield is_above
            if is_above:
                return


@dataclass(slots=True)
class DecodedSize:
    """Size of a decoded value."""

    values: int = 1
    """Including itself."""
    list_longest: int = 0
    """Items; lists of strings are ignored, because they may be a command's arguments."""


def extent_of(value: object, *, values_max: int | None = None, items_max: int | None = None) -> DecodedSize:
    """Measure a decoded value; stops when a limit is exceeded."""
    extent, left = DecodedSize(), [value]
    while left:
        found = left.pop()
        if isinstance(found, dict):
            extent.values += len(found)
            left.extend(found.values())
        elif isinstance(found, list):
            extent.values += len(found)
            if found and not isinstance(found[0], str):
                extent.list_longest = max(extent.list_longest, len(found))
                if items_max is not None and extent.list_longest > items_max:
                    break
            left.extend(found)
        if values_max is not None and extent.values > values_max:
            break
    return extent


def json_text(value: object) -> str:
    """Encode as text; bytes would become binary WebSocket frames."""
    return orjson.dumps(value).decode()


def answer_json(body: Mapping[str, Any], *, bytes_max: int) -> bytes:
    """Encode a response, one field of `data` at a time, so that a response above the limit is never held whole.

    Raises:
        AnswerTooLarge: it has more than `bytes_max` bytes.
    """
    data = body.get("data")
    if not isinstance(data, dict) or len(data) < 2:
        whole = orjson.dumps(body)
        if len(whole) > bytes_max:
            raise AnswerTooLarge
        return whole
    parts, left = [], bytes_max
    for name, value in data.items():
        part = orjson.dumps(name) + b":" + orjson.dumps(value)
        left -= len(part)
        if left < 0:
            raise AnswerTooLarge
        parts.append(part)
    rest = [orjson.dumps(name) + b":" + orjson.dumps(value) for name, value in body.items() if name != "data"]
    return b"{" + b",".join([*rest, b'"data":{' + b",".join(parts) + b"}"]) + b"}"


def too_large_answer(bytes_max: int, *, is_change: bool) -> dict[str, Any]:
    """The response that replaces one above the limit."""
    changed = "The change was made, but its" if is_change else "The"
    message = (
        f"{changed} response would exceed {bytes_max} bytes. Request less at a time: fewer fields, smaller "
        "pages, or a smaller `bytes_max`."
    )
    extensions = {"code": "answer_too_large", "limit": bytes_max}
    return {"errors": [{"message": message, "extensions": extensions}], "data": None}


def timeout_text(limit_s: float, *, is_change: bool) -> str:
    """The message of a request that took too long."""
    next_step = "The change may still take effect; check before retrying." if is_change else "Try again later."
    return f"No result within {limit_s:g} s. {next_step}"


def json_value(text: str | bytes | bytearray) -> Any:
    """Decode. Raises json.JSONDecodeError."""
    return orjson.loads(text)


def json_response(value: object, *, status: int = 200, media_type: str = "application/json") -> Response:
    """A response with a JSON body in UTF-8."""
    return encoded_response(orjson.dumps(value), status=status, media_type=media_type)


def encoded_response(text: bytes, *, status: int = 200, media_type: str = "application/json") -> Response:
    """Like `json_response`, for encoded JSON."""
    return Response(text, status, {"content-type": f"{media_type}; charset=utf-8"})


def _marks(piece: bytes) -> int:
    return piece.count(b",") + piece.count(b"[") + piece.count(b"{")


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
