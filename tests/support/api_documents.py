"""Random rewrites of documents: more fields, aliases, fragments, conditions, type names; still valid."""

from random import Random

from graphql import (
    DirectiveNode,
    FieldNode,
    FragmentDefinitionNode,
    GraphQLInterfaceType,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLSchema,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionNode,
    SelectionSetNode,
    get_named_type,
    is_leaf_type,
    parse,
    print_ast,
)

CONDITIONS = ("@skip(if: $yes)", "@skip(if: $no)", "@include(if: $yes)", "@include(if: $no)", "@include(if: true)")
VARIABLES = "($yes: Boolean! = true, $no: Boolean! = false)"


def various(text: str, schema: GraphQLSchema, random: Random) -> str:
    """Rewrite a document's only operation."""
    [operation] = parse(text).definitions
    assert isinstance(operation, OperationDefinitionNode)
    root = schema.get_root_type(operation.operation)
    assert root is not None
    rewriter = _Rewriter(schema, random)
    body = rewriter.selection(operation.selection_set, root, depth=0)
    body = _joined(body, "used: __typename @skip(if: $yes) @include(if: $no)")
    named = f"{operation.operation.value} Q{VARIABLES} {print_ast(body)}"
    return "\n".join([named, *map(print_ast, rewriter.fragments)])


class _Rewriter:
    def __init__(self, schema: GraphQLSchema, random: Random) -> None:
        self._schema = schema
        self._random = random
        self.fragments: list[FragmentDefinitionNode] = []

    def selection(self, found: SelectionSetNode, type_: GraphQLNamedType, *, depth: int) -> SelectionSetNode:
        """Rewrite one selection set."""
        nodes = [rewritten for node in found.selections for rewritten in self._node(node, type_, depth)]
        nodes += self._more(type_)
        if self._random.random() < 0.3:
            nodes.insert(
                self._random.randrange(len(nodes) + 1), _field(self._random.choice(["__typename", "kind_: __typename"]))
            )
        # One unconditional field stays, or the selection could become empty.
        nodes = [self._conditional(node) if self._random.random() < 0.2 else node for node in nodes]
        return SelectionSetNode(selections=tuple([*nodes, _field("always: __typename")]))

    def _node(self, node: SelectionNode, type_: GraphQLNamedType, depth: int) -> list[SelectionNode]:
        if isinstance(node, InlineFragmentNode):
            inner = self._schema.get_type(node.type_condition.name.value) if node.type_condition else type_
            assert inner is not None
            body = self.selection(node.selection_set, inner, depth=depth + 1)
            return [InlineFragmentNode(type_condition=node.type_condition, directives=(), selection_set=body)]
        assert isinstance(node, FieldNode)
        if node.selection_set is not None and isinstance(type_, GraphQLObjectType | GraphQLInterfaceType):
            inner = get_named_type(type_.fields[node.name.value].type)
            body = self.selection(node.selection_set, inner, depth=depth + 1)
            node = _with(node, selection_set=body)
        return self._wrapped(node, type_)

    def _wrapped(self, node: FieldNode, type_: GraphQLNamedType) -> list[SelectionNode]:
        choice = self._random.random()
        if choice < 0.15:
            return [node, _field(f"... {{ {print_ast(node)} }}")]
        if choice < 0.3:
            name = f"F{len(self.fragments)}"
            self.fragments.append(_definition(f"fragment {name} on {type_.name} {{ {print_ast(node)} }}"))
            return [_field(f"...{name}"), _field(f"...{name}")]
        return [node]

    def _more(self, type_: GraphQLNamedType) -> list[SelectionNode]:
        if not isinstance(type_, GraphQLObjectType | GraphQLInterfaceType):
            return []
        leaves = [
            name for name, field in type_.fields.items() if is_leaf_type(get_named_type(field.type)) and not field.args
        ]
        chosen = self._random.sample(leaves, self._random.randint(0, min(4, len(leaves))))
        # Union members may not use one name for different things.
        is_alone = not getattr(type_, "interfaces", ())
        return [
            _field(name if is_alone and self._random.random() < 0.7 else f"other_{name}_{type_.name}: {name}")
            for name in chosen
        ]

    def _conditional(self, node: SelectionNode) -> SelectionNode:
        condition = self._random.choice(CONDITIONS)
        return _field(f"... {condition} {{ {print_ast(node)} }}")


def _field(text: str) -> SelectionNode:
    [operation] = parse(f"{{ {text} }}").definitions
    assert isinstance(operation, OperationDefinitionNode)
    return operation.selection_set.selections[0]


def _definition(text: str) -> FragmentDefinitionNode:
    [found] = parse(text).definitions
    assert isinstance(found, FragmentDefinitionNode)
    return found


def _with(node: FieldNode, *, selection_set: SelectionSetNode) -> FieldNode:
    directives: tuple[DirectiveNode, ...] = node.directives or ()
    return FieldNode(
        name=node.name, alias=node.alias, arguments=node.arguments, directives=directives, selection_set=selection_set
    )


def _joined(found: SelectionSetNode, text: str) -> SelectionSetNode:
    return SelectionSetNode(selections=(*found.selections, _field(text)))
