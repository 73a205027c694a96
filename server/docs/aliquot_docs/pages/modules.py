"""Module reference: every package with the first sentence of its docstring."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aliquot_docs.markdown import code, table, text

ROOTS: Final = ("server/aliquot", "schema/aliquot_schema")


def modules_tables(root: Path) -> str:
    """A table per source root."""
    return "\n".join(_table(root / source) for source in ROOTS)


def packages(source: Path) -> Iterator[tuple[str, str]]:
    """Name and first sentence of every package under a source root, and of each top-level module."""
    for path in sorted(source.rglob("*.py")):
        is_package = path.name == "__init__.py"
        if is_package or path.parent == source:
            place = path.parent if is_package else path.with_suffix("")
            name = ".".join(place.relative_to(source.parent).parts)
            yield name, first_sentence(path)


def first_sentence(path: Path) -> str:
    """The docstring of a module up to the first blank line."""
    words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return words.partition("\n\n")[0]


def _table(source: Path) -> str:
    rows = ((code(name), text(summary)) for name, summary in packages(source))
    return f"## `{source.name}`\n\n{table(('module', 'contents'), rows)}"
