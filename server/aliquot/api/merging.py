"""Merging: how many fields of one name a document makes validation compare with each other.

GraphQL lets a field be selected many times, and validation then compares each with each, their selections too: 500
times `agents { revision }` take a second. What would be merged is counted here, group by group, before it is compared.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionSetNode,
)

from aliquot.api.limits import Limits


def merging_excess(document: DocumentNode, limits: Limits) -> list[GraphQLError]:
    """The error of a document that has too much to compare."""
    fragments = {node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)}
    count = _Count(fragments=fragments, fields_max=limits.cost, comparisons_max=limits.comparisons)
    for node in document.definitions:
        # Fragments that nobody spreads are compared as well.
        if isinstance(node, OperationDefinitionNode | FragmentDefinitionNode) and not count.add([node.selection_set]):
            return [
                GraphQLError(
                    f"The operation selects the same fields too often; {limits.comparisons} comparisons are taken.",
                    node,
                    extensions={"code": "budget_exceeded", "budget": "comparisons", "limit": limits.comparisons},
                )
            ]
    return []


@dataclass(slots=True, kw_only=True)
class _Count:
    fragments: Mapping[str, FragmentDefinitionNode]
    fields_max: int
    """Fragments that spread each other in a circle never end."""
    comparisons_max: int
    fields: int = 0
    comparisons: int = 0

    def add(self, merged: Iterable[SelectionSetNode]) -> bool:
        """Count what selections have together; False when it is too much."""
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
