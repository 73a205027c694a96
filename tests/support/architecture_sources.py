"""The tree's own Python sources, as files and as syntax trees."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SERVER: Final = ROOT / "server" / "aliquot"
SCHEMA: Final = ROOT / "schema" / "aliquot_schema"
CORE: Final = SERVER / "core"

Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules(*folders: Path) -> list[Path]:
    """Every Python file under the folders; there is at least one."""
    found = sorted(path for folder in folders for path in folder.rglob("*.py"))
    assert found, f"no Python files under {folders}"
    return found


def is_hand_written(path: Path) -> bool:
    """Whether people edit it: neither generated code nor a migration."""
    return not {"generated", "versions", "node_modules", "dashboard_dist"} & set(path.parts)


@cache
def tree(path: Path) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def functions(path: Path) -> Iterator[Function]:
    """Every function and method of a file, nested ones too."""
    for node in ast.walk(tree(path)):
        if isinstance(node, Function):
            yield node


def place(path: Path, node: ast.AST | None = None) -> str:
    """Where something stands, as `file:line` from the root of the tree."""
    line = getattr(node, "lineno", None)
    return f"{path.relative_to(ROOT)}" + (f":{line}" if line else "")
