"""Problems: what stands against a request, as a media type of its own.

Source: RFC 9457.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from starlette.responses import Response

from aliquot.api.rest.encoding import encoded
from aliquot_schema import errors
from aliquot_schema.graphql.errors import error_fields

MEDIA_TYPE: Final = "application/problem+json"

STATUSES: Final[tuple[tuple[type[errors.AliquotError], int], ...]] = (
    (errors.LimitExceeded, 422),
    (errors.InvalidRequest, 422),
    (errors.UnknownSlot, 422),
    (errors.ImpossibleRequest, 422),
    (errors.UnknownDependency, 422),
    (errors.AllocationRefused, 409),
    (errors.NotPlaced, 409),
    (errors.QuotaExceeded, 409),
    (errors.StateConflict, 409),
    (errors.VersionConflict, 409),
    (errors.IdempotencyMismatch, 409),
    (errors.NotFound, 404),
    (errors.Unauthenticated, 401),
    (errors.Forbidden, 403),
    (errors.Unavailable, 503),
)
"""By the class of the error; the first that holds counts. Whoever is told when to come back is told 429."""


class Problem(Struct, kw_only=True, forbid_unknown_fields=False):
    """Why a request was not carried out. Further members say what is special of this code."""

    type: str
    """The code as an address that is none: `about:blank#<code>`."""
    title: str
    status: int
    detail: str
    code: str
    """Stable; for programs."""
    instance: str
    """The request's id, as logs and events have it."""


def problem(error: errors.AliquotError, *, request_id: str) -> Response:
    """The answer that an expected error leads to."""
    retry_after = getattr(error, "retry_after", None)
    status = 429 if retry_after is not None else status_of(error)
    headers = {}
    if retry_after is not None:
        headers["retry-after"] = str(max(1, math.ceil(retry_after)))
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    more = {name: value for name, value in error_fields(error).items() if name != "code"}
    return shown(status, error.code, error.message, request_id=request_id, more=more, headers=headers)


def status_of(error: errors.AliquotError) -> int:
    """The status of an error without a time to come back."""
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 400)


def shown(
    status: int,
    code: str,
    detail: str,
    *,
    request_id: str,
    more: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A problem with the members that all have, and more of its own."""
    body: dict[str, Any] = {
        "type": f"about:blank#{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "detail": detail,
        "code": code,
        "instance": request_id,
    }
    own = {name: value for name, value in (more or {}).items() if name not in body}
    return Response(encoded(body | own), status, {"content-type": MEDIA_TYPE, **(headers or {})})
