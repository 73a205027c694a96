"""Sizes: small files, small functions. Lines are counted whole, with docstrings and blank lines."""

from pathlib import Path
from statistics import median

import pytest

from architecture_sources import ROOT, SCHEMA, SERVER, functions, modules, place

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60


@pytest.mark.parametrize("folders", [(SERVER, SCHEMA)], ids=["code"])
def test_files_are_small(folders: tuple[Path, ...]) -> None:
    lines = _file_lines(*folders)
    # Files that only mark a package would make the median look better than what people read.
    counts = sorted(count for count in lines.values() if count > 2)
    assert median(counts) <= 80
    assert counts[int(len(counts) * 0.9)] <= 250


@pytest.mark.parametrize("folders", [(SERVER, SCHEMA)], ids=["code"])
def test_functions_are_small(folders: tuple[Path, ...]) -> None:
    counts = sorted(_function_lines(*folders).values())
    assert median(counts) <= 8
    assert counts[int(len(counts) * 0.9)] <= 25


def test_no_file_is_long() -> None:
    lines = _file_lines(SERVER, SCHEMA, ROOT / "tests")
    assert {name: count for name, count in lines.items() if count > FILE_LINES_MAX} == {}


def test_no_function_is_long() -> None:
    lines = _function_lines(SERVER, SCHEMA, ROOT / "tests")
    assert {name: count for name, count in lines.items() if count > FUNCTION_LINES_MAX} == {}


def _file_lines(*folders: Path) -> dict[str, int]:
    return {place(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules(*folders)}


def _function_lines(*folders: Path) -> dict[str, int]:
    return {
        f"{place(path, node)} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in modules(*folders)
        for node in functions(path)
    }
