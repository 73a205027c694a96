"""Finds code whose outcome may depend on the order in which a set is gone through.

It knows sets by their syntax (displays, comprehensions, `set()`, `frozenset()`, operators on these) and by names that
are annotated as sets or bound to one in the same scope. It does not know types: what it finds is wrong, what it does
not find may be.
"""

import ast
from collections.abc import Iterator
from typing import Final

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda

SET_TYPES: Final = {"set", "frozenset", "Set", "AbstractSet", "MutableSet"}
SET_METHODS: Final = {"union", "intersection", "difference", "symmetric_difference", "copy"}
ORDERED_READERS: Final = {"list", "tuple", "iter", "enumerate", "zip", "map", "filter", "reversed", "dict"}
ORDER_BLIND: Final = {"sorted", "sum", "min", "max", "any", "all", "set", "frozenset", "len"}


def set_iterations(module: ast.Module) -> Iterator[ast.AST]:
    """Every place that goes through a set in the set's own order."""
    yield from _in_scope(module, frozenset())


def _in_scope(scope: Scope, outer: frozenset[str]) -> Iterator[ast.AST]:
    nodes = list(_own_nodes(scope))
    bound = _set_names(scope, nodes)
    names = (outer - _rebound(nodes)) | bound
    blind = {id(argument) for node in nodes for argument in _order_blind_arguments(node)}
    for node in nodes:
        if id(node) not in blind and any(_is_set(source, names) for source in _sources(node)):
            yield node
        if isinstance(node, Scope):
            yield from _in_scope(node, names)


def _own_nodes(scope: Scope) -> Iterator[ast.AST]:
    """Nodes of a scope, without the insides of the scopes within it."""
    waiting: list[ast.AST] = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Scope):
            waiting.extend(ast.iter_child_nodes(node))


def _set_names(scope: Scope, nodes: list[ast.AST]) -> frozenset[str]:
    names = {arg.arg for arg in _arguments(scope) if arg.annotation is not None and _is_set_type(arg.annotation)}
    for node in nodes:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and _is_set_type(node.annotation):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign) and _is_set(node.value, frozenset(names)):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return frozenset(names)


def _rebound(nodes: list[ast.AST]) -> frozenset[str]:
    return frozenset(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))


def _arguments(scope: Scope) -> list[ast.arg]:
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        return [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
    return []


def _is_set_type(annotation: ast.expr) -> bool:
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    if isinstance(annotation, ast.Attribute):
        return annotation.attr in SET_TYPES
    return isinstance(annotation, ast.Name) and annotation.id in SET_TYPES


def _is_set(node: ast.expr, names: frozenset[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Name(id=name):
            return name in names
        case ast.Call(func=ast.Name(id=name)):
            return name in {"set", "frozenset"}
        case ast.Call(func=ast.Attribute(value=value, attr=method)):
            return method in SET_METHODS and _is_set(value, names)
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), right=right):
            return _is_set(left, names) or _is_set(right, names)
        case ast.IfExp(body=body, orelse=orelse):
            return _is_set(body, names) or _is_set(orelse, names)
        case _:
            return False


def _order_blind_arguments(node: ast.AST) -> list[ast.expr]:
    """The arguments of a call whose result does not depend on their order."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ORDER_BLIND:
        return node.args
    return []


def _sources(node: ast.AST) -> list[ast.expr]:
    """The expressions that a node goes through in order."""
    match node:
        case ast.For(iter=source) | ast.AsyncFor(iter=source) | ast.Starred(value=source) | ast.YieldFrom(value=source):
            return [source]
        case ast.ListComp(generators=loops) | ast.GeneratorExp(generators=loops) | ast.DictComp(generators=loops):
            return [loop.iter for loop in loops]
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in ORDERED_READERS:
            return arguments
        case ast.Call(func=ast.Attribute(attr="join"), args=arguments):
            return arguments
        case ast.Call(func=ast.Attribute(value=owner, attr="pop"), args=[]):
            return [owner]
        case _:
            return []
