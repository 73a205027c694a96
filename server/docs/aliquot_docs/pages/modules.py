"""From component to module: every package and what its own first sentence says of it."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aliquot_docs.markdown import code, table, text

ROOTS: Final = ("server/aliquot", "schema/aliquot_schema")


def modules_tables(root: Path) -> str:
    """A table for each source root."""
    return "\n".join(_table(root / source) for source in ROOTS)


def packages(source: Path) -> Iterator[tuple[str, str]]:
    """Every package under a source root, and each module that stands beside the packages: name and first sentence."""
    for path in sorted(source.rglob("*.py")):
        is_package = path.name == "__init__.py"
        if is_package or path.parent == source:
            place = path.parent if is_package else path.with_suffix("")
            name = ".".join(place.relative_to(source.parent).parts)
            yield name, first_sentence(path)


def first_sentence(path: Path) -> str:
    """What a module says of itself, up to the first blank line."""
    words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return words.partition("\n\n")[0]


def _table(source: Path) -> str:
    rows = ((code(name), text(said)) for name, said in packages(source))
    return f"## `{source.name}`\n\n{table(('module', 'what it is'), rows)}"
