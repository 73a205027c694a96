"""Language: plain technical English, counted by phrases that make a sentence hard to read.

The words are those of a translation: an indefinite person as the subject, a verb of daily life where a technical one
exists. A few are unavoidable, so each part of the tree may have two in a thousand lines.
"""

import re
from pathlib import Path

import pytest

from architecture_sources import ROOT, is_hand_written

HITS_PER_1000_LINES_MAX = 2
PHRASES = re.compile(
    r"\b(?:nobody|somebody|whoever|whom|reckoned|(?:is|are) told|told of|tells of|stands against|lets? go"
    r"|makes? room|at once|so many|giving way|looked at|is of)\b",
    re.IGNORECASE,
)
PARTS = {
    "schema": ("schema/aliquot_schema/**/*.py",),
    "core": ("server/aliquot/core/**/*.py",),
    "service": ("server/aliquot/service/**/*.py",),
    "store": ("server/aliquot/store/**/*.py",),
    "execution": ("server/aliquot/execution/**/*.py",),
    "api": ("server/aliquot/api/**/*.py", "server/aliquot/app/**/*.py", "server/aliquot/delivery/**/*.py"),
    "cli": ("server/aliquot/cli/**/*.py", "server/aliquot/client/*.py", "server/aliquot/*.py"),
    "dashboard": ("server/dashboard/src/**/*.ts", "server/dashboard/src/**/*.tsx"),
    "docs": ("README.md", "CHANGELOG.md", "server/docs/**/*.md", "server/docs/**/*.py"),
    "decisions": ("server/decisions/*.md",),
}
HE = re.compile(r"\b(?:he|him|his|himself)\b", re.IGNORECASE)


@pytest.mark.parametrize("part", PARTS)
def test_vague_phrases_are_rare(part: str) -> None:
    texts = _texts(part)
    lines = sum(len(text.splitlines()) for text in texts.values())
    found = [
        f"{name}:{text.count(chr(10), 0, hit.start()) + 1} {hit.group()}"
        for name, text in texts.items()
        for hit in PHRASES.finditer(text)
    ]
    assert len(found) * 1000 <= HITS_PER_1000_LINES_MAX * lines, "\n".join([f"{len(found)} in {lines} lines:", *found])


@pytest.mark.parametrize("part", PARTS)
def test_texts_refer_to_users_as_they(part: str) -> None:
    texts = _texts(part)
    found = [
        f"{name}:{text.count(chr(10), 0, hit.start()) + 1} {hit.group()}"
        for name, text in texts.items()
        for hit in HE.finditer(text)
    ]
    assert found == []


def _texts(part: str) -> dict[str, str]:
    paths: set[Path] = {path for pattern in PARTS[part] for path in ROOT.glob(pattern) if path.is_file()}
    found = {path.relative_to(ROOT).as_posix(): path for path in sorted(paths) if is_hand_written(path)}
    assert found, f"no files for {part}"
    return {name: path.read_text(encoding="utf-8") for name, path in found.items()}
