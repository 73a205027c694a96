"""The budget of an operation: depth, aliases and cost, in one pass over the document.

Each fragment is weighed once, however often it is spread: walking it again at every spread would take time that
doubles with every level of nesting.

Cost counts fields. A field with an argument `first` multiplies what is below it by the page asked for, one with
`points` by a tenth of these: many numbers cost what few objects do. A variable counts as the largest number, so that a
weight belongs to the document alone. Other lists count once: their length is the cluster's, not the caller's choice.
Introspection counts as a list of the schema's types; its depth does not count, since the usual query goes deep and a
rule of its own bounds it.
"""

from collections.abc import Mapping
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
    get_named_type,
)

from aliquot.api.limits import Limits
from aliquot_schema.graphql.paging import PAGE_MAX
from aliquot_schema.history_views import POINTS_MAX

_STEP: Final = "step"
"""How many points it makes is not in the document: as many as there may be."""
_SIZES: Final = {"first": (PAGE_MAX, 1), "points": (POINTS_MAX, 10), _STEP: (POINTS_MAX, 10)}
"""Arguments that say how much is given: the most, and how many count as one."""
_INTROSPECTION: Final = 20
"""What one field below `__schema` counts as."""


class Weight(NamedTuple):
    """What one operation, or a part of it, weighs."""

    depth: int
    aliases: int
    cost: int


_NOTHING: Final = Weight(0, 0, 0)


def weigh(document: DocumentNode, schema: GraphQLSchema) -> list[tuple[OperationDefinitionNode, Weight]]:
    """Weigh every operation of a document. It need not be valid: unknown names count as plain fields."""
    scale = _Scale(
        schema=schema,
        fragments={node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)},
        known={},
    )
    operations = [node for node in document.definitions if isinstance(node, OperationDefinitionNode)]
    return [(node, scale.selection(node.selection_set, schema.get_root_type(node.operation))) for node in operations]


def excess(operation: OperationDefinitionNode, weight: Weight, limits: Limits) -> list[GraphQLError]:
    """What an operation has too much of, one error each."""
    bounds = (
        ("depth", weight.depth, limits.depth),
        ("aliases", weight.aliases, limits.aliases),
        ("cost", weight.cost, limits.cost),
    )
    return [
        GraphQLError(
            f"The operation has a {what} of {found}; at most {limit} is taken.",
            operation,
            extensions={"code": "budget_exceeded", "budget": what, "limit": limit, "actual": found},
        )
        for what, found, limit in bounds
        if found > limit
    ]


@dataclass(slots=True, kw_only=True)
class _Scale:
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
        return Weight(1 + below.depth, aliases + below.aliases, 1 + _page(node, field) * below.cost)

    def _spread(self, name: str) -> Weight:
        if name not in self.known:
            self.known[name] = _NOTHING  # a cycle ends here; validation refuses it
            fragment = self.fragments.get(name)
            if fragment is not None:
                narrowed = self.schema.get_type(fragment.type_condition.name.value)
                self.known[name] = self.selection(fragment.selection_set, narrowed)
        return self.known[name]


def _page(node: FieldNode, field: GraphQLField | None) -> int:
    name = None if field is None else next((name for name in _SIZES if name in field.args), None)
    if field is None or name is None:
        return 1
    most, unit = _SIZES[name]
    for argument in node.arguments or ():
        if argument.name.value == name and name != _STEP:
            literal = argument.value
            # Bounded, or a number of a thousand digits would be counted with; the resolver refuses what is too large.
            digits = literal.value if isinstance(literal, IntValueNode) else ""
            return max(1, (min(int(digits), most) if digits and len(digits) <= 9 else most) // unit)
    usual = field.args[name].default_value
    return max(1, (usual if isinstance(usual, int) else most) // unit)
