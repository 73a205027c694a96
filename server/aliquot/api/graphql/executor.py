"""Executor: graphql-core's, with compiled functions for values that need no resolvers.

A compiled function either gives exactly what graphql-core would give, or gives up. Then graphql-core completes that
value, and its parts again with compiled functions, so errors, paths and nulls always come from graphql-core. The
functions are cached per document. A function is compiled when its value occurs for the second time.
"""

import weakref
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final

from graphql import (
    DirectiveNode,
    DocumentNode,
    FragmentDefinitionNode,
    GraphQLAbstractType,
    GraphQLList,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLResolveInfo,
    GraphQLResolveInfoHelpers,
    Node,
    OperationDefinitionNode,
    VariableNode,
    Visitor,
    visit,
)
from graphql.execution import Executor
from graphql.execution.collect_fields import FieldDetails
from graphql.pyutils import Path
from strawberry.schema.schema import StrawberryGraphQLCoreExecutionContext

from aliquot.api.graphql.compiler import CONDITIONS, Reader, Uncompilable, compiled
from aliquot.api.graphql.inputs import ReadVariables

VARIANTS_MAX: Final = 8
"""Compiled variants of a document, by the values of the variables in @skip and @include."""


class Plan:
    """Compiled functions of one document and one set of @skip and @include values."""

    def __init__(self) -> None:
        self._readers: dict[tuple[int, ...], Reader | None] = {}
        self._asked: set[tuple[int, ...]] = set()

    def reader(self, executor: Executor[Any], type_: GraphQLOutputType, details: list[FieldDetails]) -> Reader | None:
        """The function for a value of this type; None where there is none (yet)."""
        # Nodes and types live as long as the plan, so their ids name them.
        key = (id(type_), *(id(field.node) for field in details))
        if key in self._readers:
            return self._readers[key]
        if key not in self._asked:
            self._asked.add(key)
            return None
        try:
            reader = compiled(executor, type_, details)
        except (Uncompilable, RecursionError):
            reader = None
        self._readers[key] = reader
        return reader


class Plans:
    """Plans of one schema."""

    def __init__(self) -> None:
        self._documents: dict[int, _Document] = {}

    def of(self, executor: Executor[Any]) -> Plan | None:
        """The plan for an execution; None when the document has too many variants."""
        operation = executor.operation
        document = self._documents.get(id(operation))
        if document is None:
            document = _Document(operation, executor.fragment_definitions, partial(self._forget, id(operation)))
            self._documents[id(operation)] = document
        return document.plan(executor)

    def _forget(self, key: int, _gone: object) -> None:
        self._documents.pop(key, None)

    def __len__(self) -> int:
        return len(self._documents)


class _Document:
    def __init__(
        self,
        operation: OperationDefinitionNode,
        fragments: dict[str, FragmentDefinitionNode],
        when_gone: "partial[None]",
    ) -> None:
        self._operation = weakref.ref(operation, when_gone)
        self._fragments = fragments
        """Kept alive, because plans refer to fields by id."""
        self._conditions = tuple(sorted(set(_conditions(operation, fragments))))
        self._plans: dict[tuple[object, ...], Plan] = {}

    def plan(self, executor: Executor[Any]) -> Plan | None:
        coerced = executor.variable_values.coerced
        answers = tuple(coerced.get(name) for name in self._conditions)
        if answers not in self._plans and len(self._plans) < VARIANTS_MAX:
            self._plans[answers] = Plan()
        return self._plans.get(answers)


def _conditions(operation: OperationDefinitionNode, fragments: dict[str, FragmentDefinitionNode]) -> Iterator[str]:
    """The variables in @skip and @include."""
    if operation.loc is not None and "@" not in operation.loc.source.body:
        return
    for node in (operation, *fragments.values()):
        finder = _ConditionFinder()
        visit(node, finder)
        yield from finder.found


class _ConditionFinder(Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def enter_directive(self, node: DirectiveNode, *_rest: Node) -> None:
        if node.name.value in CONDITIONS:
            values = (argument.value for argument in node.arguments or ())
            self.found += [value.name.value for value in values if isinstance(value, VariableNode)]


_GIVEN_UP: Final = object()


class CompiledExecutor(StrawberryGraphQLCoreExecutionContext):
    """Executes one operation; see `compiled_executor`."""

    plans: ClassVar[Plans]
    hides_suggestions: ClassVar[bool] = False
    """Whether errors of variables name no similar names of the schema."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        manager = self.middleware_manager
        if manager is not None and not manager.middlewares:
            manager = self.middleware_manager = None
        # Middleware has to run for every field.
        self._plan = self.plans.of(self) if manager is None else None

    @classmethod
    def build(
        cls,
        schema: Any,
        document: DocumentNode,
        root_value: Any = None,
        context_value: Any = None,
        raw_variable_values: dict[str, Any] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """The executor of an operation; variables that were coerced ahead are not coerced again."""
        raw = raw_variable_values
        kwargs["hide_suggestions"] = cls.hides_suggestions
        if not isinstance(raw, ReadVariables):
            return super().build(schema, document, root_value, context_value, raw, *args, **kwargs)
        plain = _without_variables(document)
        executor = super().build(schema, plain, root_value, context_value, None, *args, **kwargs)
        if isinstance(executor, CompiledExecutor):
            executor.variable_values = raw.read
        return executor

    @property
    def async_helpers(self) -> GraphQLResolveInfoHelpers:
        """Helpers for resolvers that run concurrently.

        Made on demand: a stored one would refer back to its executor, and each request would wait for the garbage
        collector.
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
        """Complete an object whose type is resolved first."""
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
            # graphql-core completes the value again, and reports the error.
            return _GIVEN_UP


def _without_variables(document: DocumentNode) -> DocumentNode:
    """The document with operations that declare no variables."""
    definitions = (
        replace(part, variable_definitions=()) if isinstance(part, OperationDefinitionNode) else part
        for part in document.definitions
    )
    return replace(document, definitions=tuple(definitions))


def compiled_executor(*, hides_suggestions: bool = False) -> type[CompiledExecutor]:
    """The executor class of one schema, with its own plans."""
    members = {"plans": Plans(), "hides_suggestions": hides_suggestions}
    return type("CompiledExecutorOfSchema", (CompiledExecutor,), members)
