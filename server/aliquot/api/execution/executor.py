"""The executor: graphql-core's, but for values that a compiled function can read.

A compiled function either gives exactly what graphql-core would give, or gives up. Then graphql-core completes that
value, its parts again with compiled functions, so errors, their paths and where nulls go are always graphql-core's.
"""

from typing import Any, ClassVar, Final

from graphql import (
    GraphQLAbstractType,
    GraphQLList,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLResolveInfo,
    GraphQLResolveInfoHelpers,
)
from graphql.execution.collect_fields import FieldDetails
from graphql.pyutils import Path
from strawberry.schema.schema import StrawberryGraphQLCoreExecutionContext

from aliquot.api.execution.plans import Plans

_GIVEN_UP: Final = object()


class CompiledExecutor(StrawberryGraphQLCoreExecutionContext):
    """Executes one operation; see `compiled_executor`."""

    plans: ClassVar[Plans]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        manager = self.middleware_manager
        if manager is not None and not manager.middlewares:
            manager = self.middleware_manager = None
        # Middleware wants to see every field.
        self._plan = self.plans.of(self) if manager is None else None

    @property
    def async_helpers(self) -> GraphQLResolveInfoHelpers:
        """What resolvers may run beside each other with.

        Made when it is asked for: kept, it would lead back to its executor, and each request would wait for the
        garbage collector with all that it was about.
        """
        return GraphQLResolveInfoHelpers(gather=self.gather_async_work, track=self.track_async_work)

    @async_helpers.setter
    def async_helpers(self, _kept: GraphQLResolveInfoHelpers) -> None:
        pass

    def complete_list_value(
        self,
        return_type: GraphQLList[GraphQLOutputType],
        field_details_list: list[FieldDetails],
        info: GraphQLResolveInfo[Any],
        path: Path,
        result: Any,
        position_context: Any,
    ) -> Any:
        """Complete a list."""
        read = self._read(return_type, field_details_list, result, position_context)
        if read is not _GIVEN_UP:
            return read
        return super().complete_list_value(return_type, field_details_list, info, path, result, position_context)

    def complete_object_value(
        self,
        return_type: GraphQLObjectType,
        field_details_list: list[FieldDetails],
        info: GraphQLResolveInfo[Any],
        path: Path,
        result: Any,
        position_context: Any,
    ) -> Any:
        """Complete an object."""
        read = self._read(return_type, field_details_list, result, position_context)
        if read is not _GIVEN_UP:
            return read
        return super().complete_object_value(return_type, field_details_list, info, path, result, position_context)

    def complete_abstract_value(
        self,
        return_type: GraphQLAbstractType,
        field_details_list: list[FieldDetails],
        info: GraphQLResolveInfo[Any],
        path: Path,
        result: Any,
        position_context: Any,
    ) -> Any:
        """Complete an object whose type is found out first."""
        read = self._read(return_type, field_details_list, result, position_context)
        if read is not _GIVEN_UP:
            return read
        return super().complete_abstract_value(return_type, field_details_list, info, path, result, position_context)

    def _read(self, type_: GraphQLOutputType, details: list[FieldDetails], value: Any, deferred: object) -> Any:
        if self._plan is None or deferred is not None:
            return _GIVEN_UP
        reader = self._plan.reader(self, type_, details)
        if reader is None:
            return _GIVEN_UP
        try:
            return reader(value)
        except Exception:
            # Whatever it was, graphql-core comes to it again, and reports it.
            return _GIVEN_UP


def compiled_executor() -> type[CompiledExecutor]:
    """Make the executor of one schema, with plans of its own."""
    return type("CompiledExecutorOfSchema", (CompiledExecutor,), {"plans": Plans()})
