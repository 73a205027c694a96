"""REST framework: the description of an operation, its endpoint, and problem documents.

Routes and the OpenAPI document are both made from the table of operations. Times are RFC 3339 in UTC, enumerations
their text.

Source: RFC 9457 (problem documents).
"""

import asyncio
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from aliquot.api.context import Contexts
from aliquot.api.encoding import is_json, request_id_of, timeout_text
from aliquot.api.limits import BodySize, BodyTooLarge, Limits, QueryRates
from aliquot.api.rest.refused_fields import RefusedField, refused_field, refused_number
from aliquot_schema import errors
from aliquot_schema.errors import AliquotError, InvalidRequest
from aliquot_schema.graphql.context import Context, ExternalAllocationsPort
from aliquot_schema.graphql.errors import error_fields

USUAL_PROBLEMS: Final = (400, 401, 403, 422, 429, 503, 504)
"""Error statuses that any operation may answer."""
_ENCODER: Final = msgspec.json.Encoder()
MEDIA_TYPE: Final = "application/problem+json"
STATUSES: Final[tuple[tuple[type[errors.AliquotError], int], ...]] = (
    (errors.LimitExceeded, 422),
    (errors.InvalidRequest, 422),
    (errors.UnknownSlot, 422),
    (errors.ImpossibleRequest, 422),
    (errors.UnknownDependency, 422),
    (errors.AllocationRefused, 409),
    (errors.NotPlaced, 409),
    (errors.BookingRefused, 409),
    (errors.QuotaExceeded, 409),
    (errors.StateConflict, 409),
    (errors.VersionConflict, 409),
    (errors.IdempotencyMismatch, 409),
    (errors.NotFound, 404),
    (errors.Unauthenticated, 401),
    (errors.Forbidden, 403),
    (errors.Unavailable, 503),
)
"""By class of the error; the first match counts. Errors with `retry_after` are answered with 429."""
_FIELDS: Final = {
    "slots": "gpu_count",
    "gpu_memory_gb": "memory_gb",
    "preflight.time_limit": "preflight_limit",
}
"""Fields of REST by those of GraphQL, where their names differ."""
log: Final = logging.getLogger("aliquot.api")


class RestRequest(Struct, frozen=True, kw_only=True):
    """One request, decoded and validated."""

    context: Context
    body: Any = None
    """Of the operation's type."""
    path: dict[str, str] = field(default_factory=dict)
    query: Any = None
    """Of the operation's type."""
    idempotency_key: str | None = None

    @property
    def external_allocations(self) -> ExternalAllocationsPort:
        """Always present: without it there are no REST routes, see `rest_routes`."""
        assert self.context.services.external_allocations is not None
        return self.context.services.external_allocations


class WrongValue(Exception):
    """A body or a query that does not have the type of its operation."""

    def __init__(self, refused: RefusedField) -> None:
        super().__init__(refused.text)
        self.field = refused.path


Handler = Callable[[RestRequest], Awaitable[object]]


class Operation(Struct, frozen=True, kw_only=True):
    """One method of one path."""

    method: str
    path: str
    name: str
    """Its id in the OpenAPI document."""
    summary: str
    handler: Handler
    """Its return annotation is the type of the response body."""
    media_type: str = "application/json"
    """Of the response body. For another one, the handler returns the body as text."""
    status: int = 200
    body: type | None = None
    """Type of the request body; None = none."""
    is_body_needed: bool = True
    query: type[Struct] | None = None
    """Query parameters, each with a default."""
    problems: tuple[int, ...] = ()
    """Error statuses besides the usual ones."""
    cost: int = 20
    """Charged to the caller's query rate: about the number of fields in the response."""
    cost_each: int = 0
    """Additional cost for each requested item."""
    takes_key: bool = False
    """Whether a header `Idempotency-Key` makes a retry safe."""

    def cost_of(self, query: Any) -> int:
        """Cost of one request."""
        return self.cost + self.cost_each * getattr(query, "first", 0)

    @property
    def answer(self) -> Any:
        """Type of the response body."""
        return self.handler.__annotations__["return"]

    @property
    def path_names(self) -> tuple[str, ...]:
        """Parameters in the path."""
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))


def encoded(value: Any) -> bytes:
    """JSON of structs, read models and plain values."""
    return _ENCODER.encode(value)


class Problem(Struct, kw_only=True, forbid_unknown_fields=False):
    """Why a request failed. Some codes have additional members."""

    type: str
    """`about:blank#<code>`."""
    title: str
    status: int
    detail: str
    code: str
    """Stable; for programs."""
    instance: str
    """The request id, as in logs and events."""


def error_response(error: errors.AliquotError, *, request_id: str) -> Response:
    """The response to an expected error."""
    retry_after = getattr(error, "retry_after", None)
    status = 429 if retry_after is not None else status_of(error)
    headers = {}
    if retry_after is not None:
        headers["retry-after"] = str(max(1, math.ceil(retry_after)))
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    more = {name: value for name, value in error_fields(error).items() if name != "code"}
    if "field" in more:
        more["field"] = _FIELDS.get(str(more["field"]), more["field"])
    detail = in_rest_words(error.message)
    return problem_response(status, error.code, detail, request_id=request_id, more=more, headers=headers)


def in_rest_words(message: str) -> str:
    """A refusal with the fields of REST instead of GraphQL: `gpu_count`, `memory_gb`, `next`."""
    message = re.sub(r"^(?:slots: )?(?:cuda|rocm)\.(?:device|shares): ", "gpu_count: ", message)
    message = message.replace("use one from pageInfo", "use `next` of the page before it")
    return re.sub(r"\b(gpu_memory_gb|preflight\.time_limit)\b", lambda found: _FIELDS[found[0]], message)


def status_of(error: errors.AliquotError) -> int:
    """HTTP status of an error without `retry_after`."""
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 400)


def problem_response(
    status: int,
    code: str,
    detail: str,
    *,
    request_id: str,
    more: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A problem document with the common members, and `more`."""
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


class RestEndpoint:
    """Decodes, validates, executes and answers requests of one operation."""

    def __init__(self, operation: Operation, *, contexts: Contexts, rates: QueryRates, limits: Limits) -> None:
        self._operation = operation
        self._contexts = contexts
        self._rates = rates
        self._request_s = limits.request_s
        self._body_size = BodySize.small(limits)
        self._decoder: Any = None if operation.body is None else msgspec.json.Decoder(operation.body)

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        request_id = request_id_of(request)
        try:
            context = self._contexts.of_request(request)
            refusal = self._wrong_type(request)
            if refusal is not None:
                return problem_response(415, "unsupported_media_type", refusal, request_id=request_id)
            text, query = await self._body_size.read(request), self._query(request)
            self._rates.check(context.caller, cost=self._operation.cost_of(query))
            ask = RestRequest(
                context=context,
                body=self._body(text),
                path=dict(request.path_params),
                query=query,
                idempotency_key=request.headers.get("idempotency-key") if self._operation.takes_key else None,
            )
            async with asyncio.timeout(self._request_s):
                return self._response(await self._operation.handler(ask))
        except TimeoutError:
            words = timeout_text(self._request_s, is_change=request.method != "GET")
            return problem_response(504, "timeout", words, request_id=request_id)
        except BodyTooLarge as error:
            response = problem_response(413, "limit_exceeded", str(error), request_id=request_id)
            response.headers["connection"] = "close"  # the rest of the body is not read
            return response
        except AliquotError as error:
            return error_response(error, request_id=request_id)
        except WrongValue as error:
            more = {"field": error.field}
            return problem_response(422, "invalid_request", str(error), request_id=request_id, more=more)
        except msgspec.DecodeError as error:
            return problem_response(400, "malformed", f"The body is not valid JSON: {error}", request_id=request_id)
        except (ClientDisconnect, HTTPException):  # answered by the middleware
            raise
        except Exception:
            log.exception("%s: fault at %s", request_id, self._operation.path)
            words = f"Internal error. The server's log has the details under {request_id}."
            return problem_response(500, "internal", words, request_id=request_id)

    def _response(self, value: object) -> Response:
        kind = self._operation.media_type
        if kind == "application/json":
            return Response(encoded(value), self._operation.status, {"content-type": kind})
        return Response(str(value), self._operation.status, {"content-type": f"{kind}; charset=utf-8"})

    def _wrong_type(self, request: Request) -> str | None:
        """CSRF protection: pages of other sites can send forms and plain text with a browser's cookies, but neither
        JSON nor an Authorization header."""
        if request.method in ("GET", "HEAD"):
            return None
        has_type = "content-type" in request.headers
        is_empty = not has_type and request.headers.get("content-length", "0") == "0"
        if is_empty and "authorization" in request.headers and "transfer-encoding" not in request.headers:
            return None
        if is_json(request.headers.get("content-type")):
            return None
        return None if request.method == "DELETE" and is_empty else "Send the body as application/json, in UTF-8."

    def _body(self, body: bytearray) -> Any:
        if self._decoder is None or (not body and not self._operation.is_body_needed):
            return None
        try:
            return self._decoder.decode(body)
        except msgspec.ValidationError as error:
            raise WrongValue(refused_field(error, self._operation.body)) from None

    def _query(self, request: Request) -> Any:
        pairs = request.query_params.multi_items()
        given = dict(pairs)
        if len(given) < len(pairs):
            twice = next(name for name in given if len(request.query_params.getlist(name)) > 1)[:64]
            raise InvalidRequest(f"{twice}: this query parameter is repeated; give it once", field=twice)
        if self._operation.query is not None:
            number = refused_number(given, self._operation.query)
            if number is not None:
                raise WrongValue(number)
            try:
                return msgspec.convert(given, self._operation.query, strict=False)
            except msgspec.ValidationError as error:
                raise WrongValue(refused_field(error, self._operation.query)) from None
        if given:
            name = next(iter(given))[:64]
            raise InvalidRequest(f"{name}: there is no such query parameter; this path has none", field=name)
        return None
