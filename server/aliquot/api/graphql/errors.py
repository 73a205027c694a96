"""Error masking: internal faults are logged under the request id, and clients see only that id."""

import logging
from typing import Final

import strawberry
from graphql import GraphQLError
from strawberry.exceptions import MissingQueryError
from strawberry.extensions import MaskErrors, SchemaExtension
from strawberry.schema.exceptions import CannotGetOperationTypeError, InvalidOperationTypeError
from strawberry.types.execution import ExecutionContext

from aliquot.api.graphql.strawberry_fast_paths import ExtensionsRunner
from aliquot.api.metrics.request_counts import request_notes
from aliquot_schema.errors import AliquotError
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.errors import error_fields

log: Final = logging.getLogger("aliquot.api")

_OF_THE_REQUEST: Final = (GraphQLError, MissingQueryError, CannotGetOperationTypeError, InvalidOperationTypeError)
"""Errors that Strawberry raises about a request itself; their messages contain only the request."""


class FaultLog(strawberry.Schema):
    """The server's schema: logs faults, and only faults."""

    def create_extensions_runner(
        self, execution_context: ExecutionContext, extensions: list[SchemaExtension]
    ) -> ExtensionsRunner:
        """Use the faster runner of extensions."""
        return ExtensionsRunner(execution_context, extensions)

    def process_errors(self, errors: list[GraphQLError], execution_context: ExecutionContext | None = None) -> None:
        """Log faults. Expected errors are for the caller, not for the operator."""
        for error in filter(is_fault, errors):
            log_fault(error, _request_id(execution_context))


class FaultMask(MaskErrors):
    """Expected errors get their code and fields, faults only the request id."""

    def __init__(self) -> None:
        super().__init__(should_mask_error=lambda error: error.original_error is not None)

    def _process_result(self, result: object) -> None:
        # Strawberry first checks the type of the result, which takes longer than the masking.
        if getattr(result, "errors", None):
            super()._process_result(result)

    def anonymise_error(self, error: GraphQLError) -> GraphQLError:
        """The error as the client sees it."""
        return masked(error, _request_id(self.execution_context))


def masked(error: GraphQLError, request_id: str) -> GraphQLError:
    """The error as the client sees it."""
    cause = _cause(error)
    if cause is None or isinstance(cause, _OF_THE_REQUEST):
        return error
    if isinstance(cause, AliquotError):
        return _replaced(error, cause.message, error_fields(cause))
    message = f"Internal error. The server's log has the details under {request_id}."
    return _replaced(error, message, {"code": "internal", "request_id": request_id})


def log_fault(error: GraphQLError, request_id: str) -> None:
    """Log a fault, and mark the request as failed."""
    request_notes().has_fault = True
    log.error("%s: fault at %s", request_id, error.path, exc_info=error.original_error)


def is_fault(error: GraphQLError) -> bool:
    """Whether an error is a defect of the server, not of the request or the cluster."""
    cause = _cause(error)
    return cause is not None and not isinstance(cause, (AliquotError, *_OF_THE_REQUEST))


def _cause(error: GraphQLError) -> Exception | None:
    cause: Exception | None = error
    while isinstance(cause, GraphQLError) and cause.original_error is not None:
        cause = cause.original_error
    return cause if cause is not error else None


def _replaced(error: GraphQLError, message: str, extensions: dict[str, object]) -> GraphQLError:
    return GraphQLError(message, error.nodes, error.source, error.positions, error.path, extensions=extensions)


def _request_id(execution_context: ExecutionContext | None) -> str:
    context = execution_context.context if execution_context else None
    return context.caller.request_id if isinstance(context, Context) else "unknown"
