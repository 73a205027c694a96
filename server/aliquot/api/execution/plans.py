"""Plans: the compiled functions of each document, kept as long as the document is.

Nothing is compiled that comes once: a value's function is made when it is asked for a second time, in the same
answer or in the next.
"""

import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from graphql import DirectiveNode, FragmentDefinitionNode, Node, OperationDefinitionNode, VariableNode, Visitor, visit
from graphql.execution import Executor
from graphql.execution.collect_fields import FieldDetails
from graphql.type import GraphQLOutputType

from aliquot.api.execution.compiler import compiled
from aliquot.api.execution.function_text import Reader
from aliquot.api.execution.selections import CONDITIONS, Uncompilable

VARIANTS_MAX: Final = 8
"""Values of the variables that @skip and @include ask for, for which one document is compiled."""


class Plan:
    """The functions of one document, for one set of answers to its conditions."""

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
    """The plans of one schema."""

    def __init__(self) -> None:
        self._documents: dict[int, _Document] = {}

    def of(self, executor: Executor[Any]) -> Plan | None:
        """The plan for what an executor executes; None where it has too many variants to be worth one."""
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
        """Kept, since plans know their fields by id."""
        self._conditions = tuple(sorted(set(_conditions(operation, fragments))))
        self._plans: dict[tuple[object, ...], Plan] = {}

    def plan(self, executor: Executor[Any]) -> Plan | None:
        coerced = executor.variable_values.coerced
        answers = tuple(coerced.get(name) for name in self._conditions)
        if answers not in self._plans and len(self._plans) < VARIANTS_MAX:
            self._plans[answers] = Plan()
        return self._plans.get(answers)


def _conditions(operation: OperationDefinitionNode, fragments: dict[str, FragmentDefinitionNode]) -> Iterator[str]:
    """The variables that decide what is selected."""
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
