"""Documents: query texts that are parsed, weighed and validated once, and then known by their text.

Strawberry's ParserCache lets a syntax error escape over WebSockets, and neither it nor the ValidationCache asks how
long a text is that it keeps, or weighs it before it is validated. One cache, keyed by the text, does all of it.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from graphql import DocumentNode, GraphQLError, GraphQLSchema, OperationDefinitionNode, OperationType, parse
from graphql.validation import NoSchemaIntrospectionCustomRule, recommended_rules, specified_rules, validate
from strawberry.extensions import SchemaExtension
from strawberry.schema.validation_rules.maybe_null import MaybeNullValidationRule
from strawberry.schema.validation_rules.one_of import OneOfInputValidationRule

from aliquot.api.budget import excess, weigh
from aliquot.api.limits import Limits
from aliquot.api.merging import merging_excess
from aliquot.api.metrics.requests import Kind, request_notes
from aliquot.api.query_rates import QueryRates
from aliquot_schema.graphql.context import Context

KEPT: Final = 512
TEXT_KEPT_MAX: Final = 16 * 1024
"""Longer texts carry their values in themselves and hardly come again."""
RULES: Final = (*specified_rules, *recommended_rules, MaybeNullValidationRule, OneOfInputValidationRule)
ERRORS_MAX: Final = 20
"""So many are told; each unknown name is compared with all that are known, to guess what was meant."""
KINDS: Final[Mapping[OperationType, Kind]] = {
    OperationType.QUERY: "query",
    OperationType.MUTATION: "mutation",
    OperationType.SUBSCRIPTION: "subscription",
}


@dataclass(frozen=True, kw_only=True)
class Document:
    """What is known of a query text."""

    tree: DocumentNode
    errors: list[GraphQLError]
    costs: Mapping[str | None, int]
    """By the operation's name."""

    @cached_property
    def kinds(self) -> Mapping[str | None, Kind]:
        """What each operation does, by its name."""
        operations = (part for part in self.tree.definitions if isinstance(part, OperationDefinitionNode))
        return {_name(operation): KINDS[operation.operation] for operation in operations}


class Documents:
    """Prepares query texts for one schema, and keeps those that were used last."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._rules = RULES if limits.introspection else (*RULES, NoSchemaIntrospectionCustomRule)
        self._kept: OrderedDict[str, Document] = OrderedDict()

    def prepare(self, text: str, schema: GraphQLSchema) -> Document:
        """Parse, weigh and validate a text, or know it already."""
        document = self._kept.get(text)
        if document is None:
            document = self._read(text, schema)
            if len(text) <= TEXT_KEPT_MAX:
                self._kept[text] = document
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        elif len(text) <= TEXT_KEPT_MAX:
            self._kept.move_to_end(text)
        return document

    def _read(self, text: str, schema: GraphQLSchema) -> Document:
        if len(text) > self._limits.query_characters:
            return _refused(
                GraphQLError(
                    f"A query has at most {self._limits.query_characters} characters; put values into variables.",
                    extensions={"code": "budget_exceeded", "budget": "characters"},
                )
            )
        try:
            return self._check(parse(text, max_tokens=self._limits.tokens), schema)
        except GraphQLError as error:
            # Not as the parser's own class of error, or Strawberry would close a whole WebSocket for one wrong text.
            return _refused(GraphQLError(error.message, source=error.source, positions=error.positions))
        except RecursionError:
            return _refused(GraphQLError("The query is nested too deeply.", extensions={"code": "budget_exceeded"}))

    def _check(self, tree: DocumentNode, schema: GraphQLSchema) -> Document:
        weights = weigh(tree, schema)
        errors = [error for operation, weight in weights for error in excess(operation, weight, self._limits)]
        # What is over its budget is not validated: validation's own cost grows with the square of the fields.
        errors = errors or merging_excess(tree, self._limits)
        return Document(
            tree=tree,
            errors=errors or validate(schema, tree, self._rules, max_errors=ERRORS_MAX),
            costs={_name(operation): weight.cost for operation, weight in weights},
        )


def document_cache(documents: Documents, rates: QueryRates) -> type[SchemaExtension]:
    """Make the extension that hands prepared documents to Strawberry, and reports what an operation costs."""

    class DocumentCache(SchemaExtension):
        document: Document

        def on_parse(self) -> Iterator[None]:
            context = self.execution_context
            self.document = documents.prepare(context.query or "", context.schema._schema)
            context.graphql_document = self.document.tree
            if self.document.tree is _UNREADABLE:
                # Nothing is known of the operations of such a text, so none can be looked up by its name.
                context.__post_init__(None)
            yield

        def on_validate(self) -> Iterator[None]:
            errors = self.execution_context.pre_execution_errors = self.document.errors or self._too_fast()
            kind = self.document.kinds.get(self.execution_context.operation_name, "query")
            request_notes().note_operation(kind, refused=bool(errors))
            yield

        def _too_fast(self) -> list[GraphQLError]:
            context = self.execution_context.context
            cost = self.document.costs.get(self.execution_context.operation_name)
            if cost is None or not isinstance(context, Context):
                return []
            refusal = rates.refusal(context.caller, cost=cost)
            return [] if refusal is None else [refusal]

        def get_results(self) -> dict[str, Any]:
            if self.document.errors:
                return {}
            return {"cost": self.document.costs[self.execution_context.operation_name]}

    return DocumentCache


_UNREADABLE: Final = parse("{__typename}")
"""Stands for a text that could not be read. It has errors, so it is never executed."""


def _refused(error: GraphQLError) -> Document:
    return Document(tree=_UNREADABLE, errors=[error], costs={})


def _name(operation: OperationDefinitionNode) -> str | None:
    return operation.name.value if operation.name else None
