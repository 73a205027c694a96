"""Runs every example of the README in order and compares the output; the README stays short."""

import re
from pathlib import Path
from typing import Any, Final

import pytest

from aliquot.cli.acceptance.processes import OwnServer
from docs_blocks import FILES, RESULTS, RUN, blocks, matches_json
from docs_commands import unknown_words
from docs_running import run_page
from docs_tree import ROOT

README: Final = ROOT / "README.md"
LINES_MAX: Final = 150
LINK: Final = re.compile(r"\]\(([^)#]+)(?:#([^)]+))?\)")


@pytest.mark.anyio
async def test_every_readme_example_prints_what_is_shown(two_gpus: OwnServer, tmp_path: Path) -> None:
    ran = await run_page(README, server=two_gpus, folder=tmp_path)
    assert ran == {"bash": 2, "python": 1, "graphql": 2}


def test_only_foreground_and_slow_readme_commands_are_not_run() -> None:
    found = blocks(README)
    assert {block.language for block in found} <= RUN | RESULTS | FILES
    assert [block.why_not for block in found if block.why_not is not None] == [
        "it takes minutes; tests/e2e runs the same",
        "it stays in the foreground",
    ]


def test_the_readme_begins_with_the_up_and_test_commands() -> None:
    first = blocks(README)[0]
    assert [line.partition("#")[0].strip() for line in first.text.splitlines()] == ["scripts/up --once", "scripts/test"]


def test_the_commands_in_the_readme_exist() -> None:
    text = README.read_text(encoding="utf-8")
    for script in ("up", "test", "check", "bench", "docs"):
        assert f"scripts/{script}" in text
        assert (ROOT / "scripts" / script).is_file()
    assert [unknown_words(block.text) for block in blocks(README) if block.language == "bash"] == [[]] * 4


def test_the_readme_fits_on_three_screens() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= LINES_MAX


def test_the_links_of_the_readme_are_valid() -> None:
    broken = []
    for path, anchor in LINK.findall(README.read_text(encoding="utf-8")):
        target = ROOT / path
        if not target.is_file() or (anchor and anchor not in _anchors(target)):
            broken.append(f"{path}#{anchor}")
    assert broken == []


@pytest.mark.parametrize(
    ("shown", "real", "expected"),
    [
        ({"a": "ses_..."}, {"a": "ses_1"}, True),
        ({"a": "ses_..."}, {"a": "job_1"}, False),
        ({"a": '{"x": "1", "y": "2"}'}, {"a": '{"y":"2","x":"1"}'}, True),
        ({"a": '{"x": "1"}'}, {"a": '{"x": "2"}'}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1, 2], [1], False),
        (None, {"a": 1}, False),
    ],
)
def test_shown_json_is_compared_with_real_json(shown: Any, real: Any, expected: bool) -> None:
    assert matches_json(shown, real) is expected


def _anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}
