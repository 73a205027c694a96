"""Extensions: runs the hooks of an operation, and masks errors.

Strawberry determines the kind of every extension hook for each operation, which takes a tenth of the time of a
submission; here it is determined once. Internal faults are logged under the request id, and clients see only that id.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from inspect import isgeneratorfunction
from types import TracebackType
from typing import Any, Final

import strawberry
from graphql import GraphQLError, get_operation_ast
from strawberry.exceptions import MissingQueryError
from strawberry.extensions import MaskErrors, SchemaExtension
from strawberry.extensions.context import (
    ExecutingContextManager,
    ExtensionContextManagerBase,
    OperationContextManager,
    ParsingContextManager,
    ValidationContextManager,
)
from strawberry.extensions.runner import SchemaExtensionsRunner
from strawberry.schema.exceptions import CannotGetOperationTypeError, InvalidOperationTypeError
from strawberry.types.execution import ExecutionContext

from aliquot.api.encoding import extent_of
from aliquot.api.graphql.inputs import ReadVariables, read_variables
from aliquot.api.metrics.request_counts import request_notes
from aliquot_schema.errors import AliquotError
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.errors import error_fields

log: Final = logging.getLogger("aliquot.api")

INLINE_VALUES_MAX: Final = 1_000
"""Values in the variables of an operation; more are coerced in a thread."""

Hook = Callable[[SchemaExtension], Iterator[None]]

_END: Final = object()
BAD_REQUEST: Final = "bad_request"
"""Code of a request that is not GraphQL, or does not fit the schema."""
_OF_THE_REQUEST: Final = (GraphQLError, MissingQueryError, CannotGetOperationTypeError, InvalidOperationTypeError)
"""Errors that Strawberry raises about a request itself; their messages contain only the request."""


class _HookStage(ExtensionContextManagerBase):
    """Hooks are generators with one `yield`; they do not see exceptions."""

    __slots__ = ("_entered", "_extensions")

    def __init__(self, extensions: Sequence[SchemaExtension]) -> None:
        self._extensions = extensions
        self._entered: list[Iterator[None]] = []

    async def __aenter__(self) -> None:
        for extension in self._extensions:
            kind = type(extension)
            hook = _hook(kind, self.HOOK_NAME)  # type: ignore[arg-type]  # a class is hashed by its own type
            if hook is not None:
                entered = hook(extension)
                next(entered)
                self._entered.append(entered)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        if exc_val is not None:
            return
        for entered in reversed(self._entered):
            assert next(entered, _END) is _END, f"a hook of {self.HOOK_NAME} yields more than once"


class _Operation(_HookStage, OperationContextManager):
    """Hooks of the whole operation."""


class _Parsing(_HookStage, ParsingContextManager):
    """Hooks of parsing."""


class _Validation(_HookStage, ValidationContextManager):
    """Hooks of validation, and the coercion of many variables in a thread."""

    __slots__ = ("_context",)

    def __init__(self, extensions: Sequence[SchemaExtension], context: ExecutionContext) -> None:
        super().__init__(extensions)
        self._context = context

    async def __aenter__(self) -> None:
        await super().__aenter__()
        context = self._context
        if context.pre_execution_errors or not context.variables:
            return
        if extent_of(context.variables, values_max=INLINE_VALUES_MAX).values <= INLINE_VALUES_MAX:
            return
        operation = get_operation_ast(context.graphql_document, context.operation_name)  # type: ignore[arg-type]
        if operation is None:
            return
        read = await asyncio.to_thread(
            read_variables, context.schema, operation, context.variables, hide_suggestions=_hides(context.schema)
        )
        if isinstance(read, ReadVariables):
            context.variables = read
        else:
            context.pre_execution_errors = read


class _Executing(_HookStage, ExecutingContextManager):
    """Hooks of the execution."""


class ExtensionsRunner(SchemaExtensionsRunner):
    """Runner of the extensions of one asynchronous operation."""

    def operation(self) -> OperationContextManager:
        """Hooks of the whole operation."""
        return _Operation(self.extensions)

    def validation(self) -> ValidationContextManager:
        """Hooks of validation."""
        return _Validation(self.extensions, self.execution_context)

    def parsing(self) -> ParsingContextManager:
        """Hooks of parsing."""
        return _Parsing(self.extensions)

    def executing(self) -> ExecutingContextManager:
        """Hooks of the execution."""
        return _Executing(self.extensions)


@lru_cache
def _hook(kind: type[SchemaExtension], name: str) -> Hook | None:
    """None = the extension does not implement the hook."""
    found: Any = getattr(kind, name)
    if found is getattr(SchemaExtension, name):
        return None
    if not isgeneratorfunction(found):
        raise TypeError(f"{name} of {kind.__name__} must be a generator; other kinds of hooks are not supported")
    hook: Hook = found
    return hook


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
    """Expected errors get their code and fields, wrong requests a code, faults only the request id."""

    def __init__(self) -> None:
        super().__init__(should_mask_error=lambda error: error.original_error is not None or not _has_code(error))

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
        return error if _has_code(error) else _replaced(error, error.message, {"code": BAD_REQUEST})
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


def _has_code(error: GraphQLError) -> bool:
    return "code" in (error.extensions or {})


def _replaced(error: GraphQLError, message: str, extensions: dict[str, object]) -> GraphQLError:
    return GraphQLError(message, error.nodes, error.source, error.positions, error.path, extensions=extensions)


def _request_id(execution_context: ExecutionContext | None) -> str:
    context = execution_context.context if execution_context else None
    return context.caller.request_id if isinstance(context, Context) else "unknown"


def _hides(schema: Any) -> bool:
    """Whether errors name no similar names of the schema."""
    return bool(getattr(schema.execution_context_class, "hides_suggestions", False))
