"""Documents: query texts that are parsed, weighed and validated once, then cached by their text.

Strawberry's ParserCache lets a syntax error escape over WebSockets, and neither it nor the ValidationCache limits the
length of cached texts or weighs them before validation. This cache does all of it.
"""

import logging
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from graphql import (
    DefinitionNode,
    DocumentNode,
    FloatValueNode,
    FragmentDefinitionNode,
    GraphQLError,
    GraphQLSchema,
    IntValueNode,
    Node,
    OperationDefinitionNode,
    OperationType,
    Visitor,
    parse,
    visit,
)
from graphql.validation import (
    NoDeprecatedCustomRule,
    NoSchemaIntrospectionCustomRule,
    recommended_rules,
    specified_rules,
    validate,
)
from msgspec import Struct
from strawberry.extensions import SchemaExtension
from strawberry.schema.validation_rules.maybe_null import MaybeNullValidationRule
from strawberry.schema.validation_rules.one_of import OneOfInputValidationRule

from aliquot.api.encoding import DecodedSize, extent_of
from aliquot.api.graphql.query_cost import excess, merging_excess, weigh
from aliquot.api.limits import Limits, QueryRates
from aliquot.api.metrics.request_counts import Kind, request_notes
from aliquot_schema.graphql.context import Context
from aliquot_schema.sessions import BATCH_SESSIONS_MAX

DOCUMENTS_KEPT: Final = 512
SIZES_KEPT: Final = 64
"""Costs kept of one document, by the values of its variables."""
TEXT_KEPT_MAX: Final = 16 * 1024
"""Longer texts contain their values inline and rarely repeat, so they are not cached."""
RULES: Final = (*specified_rules, *recommended_rules, MaybeNullValidationRule, OneOfInputValidationRule)
ERRORS_MAX: Final = 20
"""Reported errors; each unknown name is compared with all known ones for a suggestion."""
KINDS: Final[Mapping[OperationType, Kind]] = {
    OperationType.QUERY: "query",
    OperationType.MUTATION: "mutation",
    OperationType.SUBSCRIPTION: "subscription",
}

ITEMS_MAX: Final = BATCH_SESSIONS_MAX
"""Items of a list in the variables, other than strings: no input accepts more."""
VALUES_EACH: Final = 20
"""Values in the variables that cost as much as one field."""

DIGITS_MAX: Final = 4300
"""Digits of a number in a query: Python's limit for conversions from text."""
_LONG_NUMBER: Final = re.compile(rf"\d{{{DIGITS_MAX // 2}}}")

deprecation_log: Final = logging.getLogger("aliquot.deprecation")
_UNREADABLE: Final = parse("{__typename}")
"""Placeholder for a text that could not be parsed. Its document has errors, so it is never executed."""


class Document(Struct, frozen=True, kw_only=True, dict=True):
    """A prepared query text."""

    tree: DocumentNode
    errors: list[GraphQLError]
    costs: Mapping[str | None, int]
    """By operation name; variables count as their maximum."""

    def is_ambiguous(self, operation_name: str | None) -> bool:
        """Whether the text has several operations, and none is named."""
        return operation_name is None and len(self.kinds) > 1

    @cached_property
    def kinds(self) -> Mapping[str | None, Kind]:
        """Kind of each operation, by name."""
        return {name: KINDS[operation.operation] for name, operation in self._operations.items()}

    def cost(self, name: str | None, variables: Mapping[str, object], schema: GraphQLSchema) -> int:
        """Cost of an operation with the values of its variables."""
        sizes = _sizes_of(self._operations[name], variables)
        if not sizes:
            return self.costs[name]
        key = name, tuple(sizes.items())
        if key not in self._sized:
            if len(self._sized) >= SIZES_KEPT:
                self._sized.clear()
            weights = weigh(self.tree, schema, sizes=sizes)
            [self._sized[key]] = [weight.cost for operation, weight in weights if _name(operation) == name]
        return self._sized[key]

    @cached_property
    def _operations(self) -> Mapping[str | None, OperationDefinitionNode]:
        operations = (part for part in self.tree.definitions if isinstance(part, OperationDefinitionNode))
        return {_name(operation): operation for operation in operations}

    @cached_property
    def _sized(self) -> dict[tuple[str | None, tuple[tuple[str, int], ...]], int]:
        """Costs by operation name and the values of its variables."""
        return {}


def _sizes_of(operation: OperationDefinitionNode, variables: Mapping[str, object]) -> dict[str, int]:
    """The whole numbers among the variables of an operation, with defaults; a wrong value is left out."""
    found: dict[str, int] = {}
    for definition in operation.variable_definitions or ():
        name, default = definition.variable.name.value, definition.default_value
        value = variables.get(name)
        if name not in variables and isinstance(default, IntValueNode):
            value = int(default.value)
        if isinstance(value, int) and not isinstance(value, bool):
            found[name] = value
    return found


class Documents:
    """Prepares query texts for one schema, with an LRU cache."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._rules = RULES if limits.introspection else (*RULES, NoSchemaIntrospectionCustomRule)
        self._kept: OrderedDict[str, Document] = OrderedDict()
        self._reported: set[str] = set()
        """Uses of deprecated names that are in the log."""

    def prepare(self, text: str, schema: GraphQLSchema) -> Document:
        """Parse, weigh and validate a text, or return the cached result."""
        document = self._kept.get(text)
        if document is None:
            document = self._read(text, schema)
            if len(text) <= TEXT_KEPT_MAX:
                self._kept[text] = document
            if len(self._kept) > DOCUMENTS_KEPT:
                self._kept.popitem(last=False)
        elif len(text) <= TEXT_KEPT_MAX:
            self._kept.move_to_end(text)
        return document

    def _read(self, text: str, schema: GraphQLSchema) -> Document:
        if len(text) > self._limits.query_characters:
            return _refused(
                GraphQLError(
                    f"A query may have at most {self._limits.query_characters} characters; put values into variables.",
                    extensions={"code": "budget_exceeded", "budget": "characters"},
                )
            )
        try:
            return self._check(parse(text, max_tokens=self._limits.tokens), schema)
        except GraphQLError as error:
            if f"Document contains more than {self._limits.tokens} tokens" in error.message:
                return _refused(
                    GraphQLError(
                        f"A query may have at most {self._limits.tokens} tokens; request less at a time.",
                        extensions={"code": "budget_exceeded", "budget": "tokens", "limit": self._limits.tokens},
                    )
                )
            # Not GraphQLSyntaxError: Strawberry would close the whole WebSocket for it.
            return _refused(GraphQLError(error.message, source=error.source, positions=error.positions))
        except RecursionError:
            extensions = {"code": "budget_exceeded", "budget": "depth"}
            return _refused(GraphQLError("The query is nested too deeply.", extensions=extensions))

    def _check(self, tree: DocumentNode, schema: GraphQLSchema) -> Document:
        if (error := _long_number(tree)) is not None:
            return _refused(error)
        weights = weigh(tree, schema)
        errors = [error for operation, weight in weights for error in excess(operation, weight, self._limits)]
        # Over the budget nothing is validated: the cost of validation is quadratic in the number of fields.
        errors = errors or merging_excess(tree, self._limits)
        hides = not self._limits.introspection
        errors = errors or validate(schema, tree, self._rules, max_errors=ERRORS_MAX, hide_suggestions=hides)
        if not errors:
            self._report_deprecated(tree, schema)
        return Document(
            tree=tree,
            errors=errors,
            costs={_name(operation): weight.cost for operation, weight in weights},
        )

    def _report_deprecated(self, tree: DocumentNode, schema: GraphQLSchema) -> None:
        """Log each deprecated field, argument, input field and value that a valid document names, once per start."""
        written = tuple(part for part in tree.definitions if not _is_of_own_client(part))
        if not written:
            return
        for use in validate(schema, DocumentNode(definitions=written), [NoDeprecatedCustomRule], max_errors=ERRORS_MAX):
            if use.message not in self._reported:
                self._reported.add(use.message)
                deprecation_log.warning("a GraphQL request uses a deprecated name: %s", use.message)


def _is_of_own_client(definition: DefinitionNode) -> bool:
    """Whether it is a fragment of Aliquot's Python client: it is named like its type, and has all its fields."""
    return isinstance(definition, FragmentDefinitionNode) and (
        definition.name.value == definition.type_condition.name.value
    )


def _long_number(tree: DocumentNode) -> GraphQLError | None:
    """The error for a number that is longer than Python reads."""
    text = "" if tree.loc is None else tree.loc.source.body
    if _LONG_NUMBER.search(text) is None:
        return None
    finder = _NumberFinder()
    visit(tree, finder)
    if finder.found is None:
        return None
    digits = len(finder.found.value)
    message = f"A number in the query has {digits:,} digits; at most {DIGITS_MAX:,} are read."
    return GraphQLError(message, finder.found, extensions={"code": "limit_exceeded", "limit": DIGITS_MAX})


class _NumberFinder(Visitor):
    """Finds a number that is too long; strings may have as many digits as they like."""

    def __init__(self) -> None:
        super().__init__()
        self.found: IntValueNode | FloatValueNode | None = None

    def enter_int_value(self, node: IntValueNode, *_rest: Node) -> None:
        if len(node.value) > DIGITS_MAX:
            self.found = node

    def enter_float_value(self, node: FloatValueNode, *_rest: Node) -> None:
        if len(node.value) > DIGITS_MAX:
            self.found = node


def _rate_refusal(rates: QueryRates, context: object, cost: int) -> list[GraphQLError]:
    refusal = rates.refusal(context.caller, cost=cost) if isinstance(context, Context) else None
    return [] if refusal is None else [refusal]


def document_cache(documents: Documents, rates: QueryRates) -> type[SchemaExtension]:
    """The extension that hands prepared documents to Strawberry, and reports the cost of an operation."""

    class DocumentCache(SchemaExtension):
        document: Document
        cost: int = 0
        """Cost of the operation with its variables."""

        def on_parse(self) -> Iterator[None]:
            context = self.execution_context
            self.document = documents.prepare(context.query or "", context.schema._schema)
            context.graphql_document = self.document.tree
            if self.document.tree is _UNREADABLE:
                # The operations of such a text are unknown, so none can be selected by name.
                context.__post_init__(None)
            yield

        def on_validate(self) -> Iterator[None]:
            errors = self.execution_context.pre_execution_errors = self.document.errors or self._refused()
            kind = self.document.kinds.get(self.execution_context.operation_name, "query")
            request_notes().note_operation(kind, refused=bool(errors))
            yield

        def _refused(self) -> list[GraphQLError]:
            if self.document.is_ambiguous(self.execution_context._provided_operation_name):
                return [_unnamed(self.document)]
            extent = extent_of(self.execution_context.variables or {}, items_max=ITEMS_MAX)
            return too_long_list(extent) or self._too_fast(extent.values // VALUES_EACH)

        def _too_fast(self, variables_cost: int) -> list[GraphQLError]:
            found = self.execution_context
            if found.operation_name not in self.document.costs:
                return []
            self.cost = variables_cost + self.document.cost(
                found.operation_name, found.variables or {}, found.schema._schema
            )
            return _rate_refusal(rates, found.context, self.cost)

        def get_results(self) -> dict[str, Any]:
            return {} if self.document.errors else {"cost": self.cost}

    return DocumentCache


def too_long_list(extent: DecodedSize) -> list[GraphQLError]:
    """The error for variables with a list that no input accepts."""
    if extent.list_longest <= ITEMS_MAX:
        return []
    message = (
        f"A list in the variables may have at most {ITEMS_MAX} items unless they are strings; one has "
        f"{extent.list_longest}. Split it into several requests."
    )
    return [GraphQLError(message, extensions={"code": "limit_exceeded", "limit": ITEMS_MAX})]


def _unnamed(document: Document) -> GraphQLError:
    names = ", ".join(str(name) for name in document.kinds)
    return GraphQLError(
        f"The query has {len(document.kinds)} operations ({names}); say in `operationName` which one to run.",
        extensions={"code": "bad_request"},
    )


def _refused(error: GraphQLError) -> Document:
    return Document(tree=_UNREADABLE, errors=[error], costs={})


def _name(operation: OperationDefinitionNode) -> str | None:
    return operation.name.value if operation.name else None
