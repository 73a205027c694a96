"""Query cost: depth, aliases and cost of an operation, in one pass over the document, before validation.

- Cost counts fields. An argument `first` multiplies the cost below it by the page size, `points` by a tenth of its
  value. Other lists count once. The limit of an operation counts variables as their maximum, so that it depends on the
  document alone; the rate limit of a user counts the values that were sent.
- An argument `bytes_max` adds one per 512 bytes. `points` and `step` add three per point: reading a time series takes
  far longer than completing its fields.
- Introspection counts as a list of the schema's types; its depth does not count.
- Each fragment is weighed once. Walking it at every spread would take exponential time.
- Comparisons: validation compares all fields of one name with each other, and 500 times `agents { revision }` take a
  second. `merging_excess` counts these pairs first.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLField,
    GraphQLInterfaceType,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLSchema,
    InlineFragmentNode,
    IntValueNode,
    OperationDefinitionNode,
    SelectionNode,
    SelectionSetNode,
    ValueNode,
    VariableNode,
    get_named_type,
)

from aliquot.api.limits import Limits
from aliquot_schema.graphql.pagination import PAGE_MAX
from aliquot_schema.views.live import BYTES_MAX
from aliquot_schema.views.statistics import POINTS_MAX

_STEP: Final = "step"
"""The number of points is not in the document, so it counts as the maximum."""
_SIZES: Final = {"first": (PAGE_MAX, 1), "points": (POINTS_MAX, 10), _STEP: (POINTS_MAX, 10)}
"""Arguments that set the size of a result: (maximum, units per field)."""
_BYTES: Final = "bytes_max"
_BYTES_EACH: Final = 512
"""Bytes that cost as much as one field."""
_POINTS: Final = ("points", _STEP)
_POINT_COST: Final = 3
"""Cost of reading one point of a time series: 1,000 points of the queue take 24 ms, as 5,000 fields do."""
_DIGITS_MAX: Final = 9
_INTROSPECTION: Final = 30
"""Cost of one field below `__schema`."""


class Weight(NamedTuple):
    """Weight of an operation or a part of it."""

    depth: int
    aliases: int
    cost: int


_NOTHING: Final = Weight(0, 0, 0)


def weigh(
    document: DocumentNode, schema: GraphQLSchema, *, sizes: Mapping[str, int] | None = None
) -> list[tuple[OperationDefinitionNode, Weight]]:
    """Weigh every operation of a document. It need not be valid: unknown names count as plain fields.

    Args:
        sizes: values of variables; others count as their maximum.
    """
    scale = _Scale(
        sizes=sizes or {},
        schema=schema,
        fragments={node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)},
        known={},
    )
    operations = [node for node in document.definitions if isinstance(node, OperationDefinitionNode)]
    return [(node, scale.selection(node.selection_set, schema.get_root_type(node.operation))) for node in operations]


def excess(operation: OperationDefinitionNode, weight: Weight, limits: Limits) -> list[GraphQLError]:
    """One error for each exceeded limit."""
    bounds = (
        ("depth", weight.depth, limits.depth),
        ("aliases", weight.aliases, limits.aliases),
        ("cost", weight.cost, limits.cost),
    )
    return [
        GraphQLError(
            f"The operation has a {what} of {found}; the limit is {limit}. Request less at a time.",
            operation,
            extensions={"code": "budget_exceeded", "budget": what, "limit": limit, "actual": found},
        )
        for what, found, limit in bounds
        if found > limit
    ]


@dataclass(slots=True, kw_only=True)
class _Scale:
    sizes: Mapping[str, int]
    schema: GraphQLSchema
    fragments: Mapping[str, FragmentDefinitionNode]
    known: dict[str, Weight]

    def selection(self, selection_set: SelectionSetNode | None, parent: GraphQLNamedType | None) -> Weight:
        if selection_set is None or not selection_set.selections:
            return _NOTHING
        weights = [self._node(node, parent) for node in selection_set.selections]
        return Weight(
            max(weight.depth for weight in weights),
            sum(weight.aliases for weight in weights),
            sum(weight.cost for weight in weights),
        )

    def _node(self, node: SelectionNode, parent: GraphQLNamedType | None) -> Weight:
        if isinstance(node, FieldNode):
            return self._field(node, parent)
        if isinstance(node, InlineFragmentNode):
            narrowed = self.schema.get_type(node.type_condition.name.value) if node.type_condition else parent
            return self.selection(node.selection_set, narrowed)
        return self._spread(node.name.value) if isinstance(node, FragmentSpreadNode) else _NOTHING

    def _field(self, node: FieldNode, parent: GraphQLNamedType | None) -> Weight:
        aliases = int(node.alias is not None)
        if node.name.value.startswith("__"):
            below = self.selection(node.selection_set, None)
            return Weight(1, aliases + below.aliases, 1 + _INTROSPECTION * below.cost)
        fields = parent.fields if isinstance(parent, GraphQLObjectType | GraphQLInterfaceType) else {}
        field = fields.get(node.name.value)
        below = self.selection(node.selection_set, get_named_type(field.type) if field else None)
        cost = 1 + self._bytes(node, field) + self._points(node, field) + self._page(node, field) * below.cost
        return Weight(1 + below.depth, aliases + below.aliases, cost)

    def _spread(self, name: str) -> Weight:
        if name not in self.known:
            self.known[name] = _NOTHING  # ends a cycle, which validation rejects
            fragment = self.fragments.get(name)
            if fragment is not None:
                narrowed = self.schema.get_type(fragment.type_condition.name.value)
                self.known[name] = self.selection(fragment.selection_set, narrowed)
        return self.known[name]

    def _page(self, node: FieldNode, field: GraphQLField | None) -> int:
        name = None if field is None else next((name for name in _SIZES if name in field.args), None)
        return 1 if field is None or name is None else max(1, self._units(node, field, name, *_SIZES[name]))

    def _bytes(self, node: FieldNode, field: GraphQLField | None) -> int:
        return (
            0 if field is None or _BYTES not in field.args else self._units(node, field, _BYTES, BYTES_MAX, _BYTES_EACH)
        )

    def _points(self, node: FieldNode, field: GraphQLField | None) -> int:
        name = None if field is None else next((name for name in _POINTS if name in field.args), None)
        return 0 if field is None or name is None else _POINT_COST * self._units(node, field, name, POINTS_MAX, 1)

    def _units(self, node: FieldNode, field: GraphQLField, name: str, value_max: int, unit: int) -> int:
        """The value of an argument, in units. Bounded, so that huge numbers stay cheap and negative ones save nothing;
        the resolver rejects them."""
        for argument in node.arguments or ():
            if argument.name.value == name and name != _STEP:
                return max(0, min(self._value(argument.value, value_max), value_max)) // unit
        default = field.args[name].default_value
        return (default if isinstance(default, int) else value_max) // unit

    def _value(self, given: ValueNode, value_max: int) -> int:
        if isinstance(given, VariableNode):
            return self.sizes.get(given.name.value, value_max)
        if isinstance(given, IntValueNode) and len(given.value) <= _DIGITS_MAX:
            return int(given.value)
        return value_max


def merging_excess(document: DocumentNode, limits: Limits) -> list[GraphQLError]:
    """The error for a document with too many comparisons."""
    fragments = {node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)}
    count = _SelectionCount(fragments=fragments, fields_max=limits.cost, comparisons_max=limits.comparisons)
    for node in document.definitions:
        # Unused fragments are compared as well.
        if isinstance(node, OperationDefinitionNode | FragmentDefinitionNode) and not count.add([node.selection_set]):
            return [
                GraphQLError(
                    f"The operation selects the same fields too often; the limit is {limits.comparisons} comparisons.",
                    node,
                    extensions={"code": "budget_exceeded", "budget": "comparisons", "limit": limits.comparisons},
                )
            ]
    return []


@dataclass(slots=True, kw_only=True)
class _SelectionCount:
    fragments: Mapping[str, FragmentDefinitionNode]
    fields_max: int
    """Ends the count for fragments that spread each other in a cycle."""
    comparisons_max: int
    fields: int = 0
    comparisons: int = 0

    def add(self, merged: Iterable[SelectionSetNode]) -> bool:
        """Count merged selections; False when there are too many."""
        groups: defaultdict[str, list[FieldNode]] = defaultdict(list)
        seen: set[str] = set()
        for selection_set in merged:
            for node in self._fields(selection_set, seen):
                groups[(node.alias or node.name).value].append(node)
                self.fields += 1
        self.comparisons += sum(len(nodes) * (len(nodes) - 1) // 2 for nodes in groups.values())
        if self.fields > self.fields_max or self.comparisons > self.comparisons_max:
            return False
        below = ([node.selection_set for node in nodes if node.selection_set] for nodes in groups.values())
        return all(self.add(selection_sets) for selection_sets in below if selection_sets)

    def _fields(self, selection_set: SelectionSetNode, seen: set[str]) -> Iterator[FieldNode]:
        for node in selection_set.selections:
            if isinstance(node, FieldNode):
                yield node
            elif isinstance(node, InlineFragmentNode):
                yield from self._fields(node.selection_set, seen)
            elif isinstance(node, FragmentSpreadNode) and node.name.value not in seen:
                seen.add(node.name.value)
                fragment = self.fragments.get(node.name.value)
                if fragment is not None:
                    yield from self._fields(fragment.selection_set, seen)
