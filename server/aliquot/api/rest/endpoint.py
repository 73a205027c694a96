"""One operation over HTTP: who asks, what, and the answer or the problem."""

import asyncio
import logging
from typing import Any, Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from aliquot.api.contexts import Contexts
from aliquot.api.media_types import is_json
from aliquot.api.query_rates import QueryRates
from aliquot.api.request_ids import request_id_of
from aliquot.api.rest.encoding import encoded
from aliquot.api.rest.operations import Ask, Operation
from aliquot.api.rest.problems import problem, shown
from aliquot_schema.errors import AliquotError, InvalidRequest

log: Final = logging.getLogger("aliquot.api")


class RestEndpoint:
    """Reads, checks, carries out and answers."""

    def __init__(self, operation: Operation, *, contexts: Contexts, rates: QueryRates, request_s: float) -> None:
        """
        Args:
            request_s: seconds until an operation is given up.
        """
        self._operation = operation
        self._contexts = contexts
        self._rates = rates
        self._request_s = request_s
        self._decoder: Any = None if operation.body is None else msgspec.json.Decoder(operation.body)

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        request_id = request_id_of(request)
        try:
            context = self._contexts.of_request(request)
            refusal = self._wrong_type(request)
            if refusal is not None:
                return shown(415, "unsupported_media_type", refusal, request_id=request_id)
            ask = Ask(
                context=context,
                body=self._body(await request.body()),
                path=dict(request.path_params),
                query=self._query(request),
                idempotency_key=request.headers.get("idempotency-key") if self._operation.takes_key else None,
            )
            self._rates.check(context.caller, cost=self._operation.cost_of(ask.query))
            async with asyncio.timeout(self._request_s):
                return self._shown(await self._operation.handler(ask))
        except TimeoutError:
            words = f"Not answered within {self._request_s:g} s and given up. A change may still take effect."
            return shown(504, "timeout", words, request_id=request_id)
        except AliquotError as error:
            return problem(error, request_id=request_id)
        except msgspec.ValidationError as error:
            return shown(422, "invalid_request", str(error), request_id=request_id)
        except msgspec.DecodeError as error:
            return shown(400, "malformed", f"The body is no JSON: {error}", request_id=request_id)
        except (ClientDisconnect, HTTPException):  # a body that is too large, or too slow, is answered further out
            raise
        except Exception:
            log.exception("%s: fault at %s", request_id, self._operation.path)
            words = f"Something went wrong inside the server. It is logged as {request_id}."
            return shown(500, "internal", words, request_id=request_id)

    def _shown(self, value: object) -> Response:
        return Response(encoded(value), self._operation.status, {"content-type": "application/json"})

    def _wrong_type(self, request: Request) -> str | None:
        """A page of another site can send forms and plain text, or nothing, without asking, and a browser adds its
        cookies; JSON it cannot send, nor an Authorization header."""
        if request.method in ("GET", "HEAD"):
            return None
        has_type = "content-type" in request.headers
        is_empty = not has_type and request.headers.get("content-length", "0") == "0"
        if is_empty and "authorization" in request.headers and "transfer-encoding" not in request.headers:
            return None
        if is_json(request.headers.get("content-type")):
            return None
        return None if request.method == "DELETE" and is_empty else "Send the body as application/json, in UTF-8."

    def _body(self, body: bytes) -> Any:
        if self._decoder is None or (not body and not self._operation.is_body_needed):
            return None
        return self._decoder.decode(body)

    def _query(self, request: Request) -> Any:
        pairs = request.query_params.multi_items()
        given = dict(pairs)
        if len(given) < len(pairs):
            raise InvalidRequest("a parameter is given twice; each takes one value")
        if self._operation.query is not None:
            return msgspec.convert(given, self._operation.query, strict=False)
        if given:
            raise InvalidRequest(f"{next(iter(given))[:64]!r} is no parameter; this takes none")
        return None
