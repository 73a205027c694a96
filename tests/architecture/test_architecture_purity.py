"""Checks beyond import-linter: hidden randomness and order in `core`, clocks read in the wrong place, lost
cancellations."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from architecture_sources import CORE, SCHEMA, SERVER, modules, place, tree
from set_order import set_iterations

CLOCK = SERVER / "clock.py"
WALL_CLOCKS = {"now", "utcnow", "today"}


def test_core_does_not_hash() -> None:
    """`hash()` of text differs from process to process."""
    assert _calls_of("hash") == []


def test_core_uses_no_random_numbers() -> None:
    assert [
        place(path, node) for path in modules(CORE) for node in ast.walk(tree(path)) if _is_numpy_random(node)
    ] == []


def test_core_does_not_iterate_over_unordered_sets() -> None:
    assert [place(path, node) for path in modules(CORE) for node in set_iterations(tree(path))] == []


@pytest.mark.parametrize(
    "code",
    [
        "for x in {1, 2}: pass",
        "for x in set(items): pass",
        "ready = {a for a in items}\nfor x in ready: pass",
        "def f(ready: frozenset[int]):\n    return [x for x in ready]",
        "def f(ready: set[int], late: set[int]):\n    return list(ready | late)",
        "first = next(iter(frozenset(items)))",
        "ready: set[int] = set()\nready.pop()",
        "for i, x in enumerate(set(items)): pass",
        "def f(ready: set[str]):\n    return ','.join(ready)",
        "def f(ready: set[str]):\n    return {x: 1 for x in ready}",
    ],
)
def test_iterations_over_sets_are_detected(code: str) -> None:
    assert list(set_iterations(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "for x in sorted({1, 2}): pass",
        "for x in [1, 2]: pass",
        "def f(ready: frozenset[int]):\n    return 3 in ready and len(ready)",
        "ready = {a: 1 for a in items}\nfor x in ready: pass",
        "def f(ready: set[int]):\n    return all(x > 0 for x in ready) and {x + 1 for x in ready}",
        "def f(ready: set[int]):\n    return sorted(x for x in ready)",
        "def f(ready: dict[str, set[int]]):\n    return [x for x in ready]",
    ],
)
def test_code_without_iterations_over_sets_is_accepted(code: str) -> None:
    assert list(set_iterations(ast.parse(code))) == []


def test_only_the_clock_reads_the_date() -> None:
    paths = [path for path in modules(SERVER, SCHEMA) if path != CLOCK]
    assert [place(path, node) for path in paths for node in _wall_clock_reads(path)] == []


def test_no_wait_drops_a_cancellation() -> None:
    """`asyncio.wait_for` does in Python 3.11, if the result arrives at the same moment; `asyncio.timeout` does not."""
    found = [
        place(path, node)
        for path in modules(SERVER, SCHEMA)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and node.attr == "wait_for" and ast.unparse(node.value) == "asyncio"
    ]
    assert found == []


def _calls_of(name: str) -> list[str]:
    return [
        place(path, node)
        for path in modules(CORE)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    ]


def _is_numpy_random(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "random" and isinstance(node.value, ast.Name) and node.value.id in {"np", "numpy"}
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        return module.startswith("numpy.random") or (module == "numpy" and any(a.name == "random" for a in node.names))
    return isinstance(node, ast.Import) and any(alias.name.startswith("numpy.random") for alias in node.names)


def _wall_clock_reads(path: Path) -> Iterator[ast.AST]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute) and node.attr in WALL_CLOCKS:
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
            if name in {"datetime", "date"}:
                yield node
