"""JSON, in and out."""

from typing import Any

import orjson
from starlette.responses import Response


def json_text(value: object) -> str:
    """Encode as text; bytes would become binary frames on a WebSocket."""
    return orjson.dumps(value).decode()


def json_value(text: str | bytes) -> Any:
    """Decode. Raises json.JSONDecodeError."""
    return orjson.loads(text)


def json_response(value: object, *, status: int = 200, media_type: str = "application/json") -> Response:
    """A response with a JSON body in UTF-8."""
    return Response(orjson.dumps(value), status, {"content-type": f"{media_type}; charset=utf-8"})
