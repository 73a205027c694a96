"""Sizes: modules of one whole concept each, packages of limited size, small functions.

Lines are counted whole, with docstrings and blank lines. The limits hold in both directions: a tree of many tiny
modules is as hard to read as one of a few huge ones.
"""

import ast
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from statistics import median

from architecture_sources import ROOT, SCHEMA, SERVER, Function, functions, is_hand_written, modules, place, tree

MODULE_LINES_MAX = 450
TEST_LINES_MAX = 400
MODULES_PER_1000_LINES_MAX = 7
MODULES_PER_PACKAGE_MAX = 24
SMALL_MODULE_LINES = 40
FUNCTION_LINES_MAX = 60
PROGRAMS = {"service/sessions/command_patterns"}
"""Small modules that are run as programs of their own."""


def test_typical_module_sizes_stay_within_limits() -> None:
    counts = sorted(_lines(path) for path in _hand_written())
    assert 100 <= median(counts) <= 220
    assert counts[int(len(counts) * 0.9)] <= 320
    assert len(counts) * 1000 <= MODULES_PER_1000_LINES_MAX * sum(counts)


def test_no_module_is_long() -> None:
    assert {place(path): _lines(path) for path in _hand_written() if _lines(path) > MODULE_LINES_MAX} == {}
    tests = modules(ROOT / "tests")
    assert {place(path): _lines(path) for path in tests if _lines(path) > TEST_LINES_MAX} == {}


def test_no_package_has_too_many_modules() -> None:
    counts = Counter(place(path.parent) for path in _hand_written())
    assert {package: count for package, count in counts.items() if count > MODULES_PER_PACKAGE_MAX} == {}


def test_no_small_module_serves_one_sibling_alone() -> None:
    """Such a module belongs in the one that imports it."""
    small = [
        place(path)
        for path in _hand_written()
        if _lines(path) < SMALL_MODULE_LINES
        and path.name != "__main__.py"
        and path.relative_to(SERVER if SERVER in path.parents else SCHEMA).with_suffix("").as_posix() not in PROGRAMS
        and {importer.parent for importer in _importers()[path]} == {path.parent}
        and len(_importers()[path]) == 1
    ]
    assert small == []


def test_functions_are_small() -> None:
    counts = sorted(_function_lines(SERVER, SCHEMA).values())
    assert median(counts) <= 8
    assert counts[int(len(counts) * 0.9)] <= 25


def test_no_function_is_long() -> None:
    lines = _function_lines(SERVER, SCHEMA, ROOT / "tests")
    assert {name: count for name, count in lines.items() if count > FUNCTION_LINES_MAX} == {}


def _hand_written() -> list[Path]:
    return [path for path in modules(SERVER, SCHEMA) if is_hand_written(path) and path.name != "__init__.py"]


@cache
def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


@cache
def _importers() -> dict[Path, set[Path]]:
    """The modules that import each module, lazily or not."""
    by_name = {_dotted(path): path for path in modules(SERVER, SCHEMA)}
    found: dict[Path, set[Path]] = defaultdict(set)
    for path in modules(SERVER, SCHEMA):
        for node in ast.walk(tree(path)):
            for name in _imported(node):
                if name in by_name:
                    found[by_name[name]].add(path)
    return found


def _dotted(path: Path) -> str:
    root = SERVER.parent if SERVER in path.parents else SCHEMA.parent
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def _function_lines(*folders: Path) -> dict[str, int]:
    return {
        f"{place(path, node)} {node.name}": (node.end_lineno or node.lineno) - _first_line(path, node) + 1
        for path in modules(*folders)
        for node in functions(path)
    }


def _first_line(path: Path, node: Function) -> int:
    """Where a function begins; for a CLI command, where its body begins: options are declared one by one."""
    return node.body[0].lineno if SERVER / "cli" in path.parents else node.lineno
