"""Faults: what goes wrong inside is logged with its request's id, and leaves the server as that id alone."""

import logging
from typing import Final

import strawberry
from graphql import GraphQLError
from strawberry.exceptions import MissingQueryError
from strawberry.extensions import MaskErrors, SchemaExtension
from strawberry.schema.exceptions import CannotGetOperationTypeError, InvalidOperationTypeError
from strawberry.types.execution import ExecutionContext

from aliquot.api.execution.stages import Stages
from aliquot.api.metrics.requests import request_notes
from aliquot_schema.errors import AliquotError
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.errors import error_fields

log: Final = logging.getLogger("aliquot.api")

_OF_THE_REQUEST: Final = (GraphQLError, MissingQueryError, CannotGetOperationTypeError, InvalidOperationTypeError)
"""What Strawberry raises about a request itself; their messages hold nothing but the request."""


class FaultLog(strawberry.Schema):
    """The schema, as the server runs it: faults are logged, and only they."""

    def create_extensions_runner(
        self, execution_context: ExecutionContext, extensions: list[SchemaExtension]
    ) -> Stages:
        """Have extensions run without ado."""
        return Stages(execution_context, extensions)

    def process_errors(self, errors: list[GraphQLError], execution_context: ExecutionContext | None = None) -> None:
        """Log what is a fault. Expected errors are the caller's to read, not the operator's."""
        for error in filter(is_fault, errors):
            log_fault(error, _request_id(execution_context))


class FaultMask(MaskErrors):
    """Errors as they leave: expected ones with their code and fields, faults with the request's id and no more."""

    def __init__(self) -> None:
        super().__init__(should_mask_error=lambda error: error.original_error is not None)

    def _process_result(self, result: object) -> None:
        # Strawberry asks first whether the result is of its protocol, which takes longer than the masking.
        if getattr(result, "errors", None):
            super()._process_result(result)

    def anonymise_error(self, error: GraphQLError) -> GraphQLError:
        """Replace an error by what may be seen of it."""
        return seen(error, _request_id(self.execution_context))


def seen(error: GraphQLError, request_id: str) -> GraphQLError:
    """An error as it leaves."""
    cause = _cause(error)
    if cause is None or isinstance(cause, _OF_THE_REQUEST):
        return error
    if isinstance(cause, AliquotError):
        return _shown(error, cause.message, error_fields(cause))
    message = f"Something went wrong inside the server. It is logged as {request_id}."
    return _shown(error, message, {"code": "internal", "request_id": request_id})


def log_fault(error: GraphQLError, request_id: str) -> None:
    """Log what is a fault."""
    request_notes().has_fault = True
    log.error("%s: fault at %s", request_id, error.path, exc_info=error.original_error)


def is_fault(error: GraphQLError) -> bool:
    """Whether an error is the server's own, rather than the caller's or the cluster's."""
    cause = _cause(error)
    return cause is not None and not isinstance(cause, (AliquotError, *_OF_THE_REQUEST))


def _cause(error: GraphQLError) -> Exception | None:
    cause: Exception | None = error
    while isinstance(cause, GraphQLError) and cause.original_error is not None:
        cause = cause.original_error
    return cause if cause is not error else None


def _shown(error: GraphQLError, message: str, extensions: dict[str, object]) -> GraphQLError:
    return GraphQLError(message, error.nodes, error.source, error.positions, error.path, extensions=extensions)


def _request_id(execution_context: ExecutionContext | None) -> str:
    context = execution_context.context if execution_context else None
    return context.caller.request_id if isinstance(context, Context) else "unknown"
