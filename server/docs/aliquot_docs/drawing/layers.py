"""Layer picture: the import contract of pyproject.toml."""

import tomllib
from pathlib import Path
from typing import Final

from aliquot_docs.drawing.svg import BLUE, FAINT, GREEN, INK, box, label, picture
from aliquot_docs.pages.modules import first_sentence

WIDTH: Final = 760
ROW: Final = 46


def layers(root: Path) -> list[list[str]]:
    """The layers from top to bottom; layers of one line are side by side."""
    tables = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (one for one in tables["tool"]["importlinter"]["contracts"] if one["id"] == "layers")
    return [[name.strip() for name in line.split("|")] for line in contract["layers"]]


def layers_picture(root: Path) -> str:
    """A stack of layers, with the schema package, which all of them may import, on its right."""
    rows = layers(root)
    height = len(rows) * ROW + 12
    parts = [part for number, row in enumerate(rows) for part in _row(row, y=6 + number * ROW, root=root)]
    parts.append(box(600, 6, 150, height - 14, stroke=GREEN))
    parts.append(label("aliquot_schema", 675, height / 2, size=15))
    parts.append(label("types and GraphQL schema", 675, height / 2 + 18, size=12, color=FAINT))
    return picture("".join(parts), width=WIDTH, height=height, title="Each layer may import those below it")


def _row(names: list[str], *, y: float, root: Path) -> list[str]:
    width = (580 - 8 * (len(names) - 1)) / len(names)
    parts = []
    for index, name in enumerate(names):
        x = 8 + index * (width + 8)
        parts.append(box(x, y, width, ROW - 8, stroke=BLUE))
        if len(names) > 1:
            parts.append(label(name, x + width / 2, y + 24, size=15))
        else:
            parts.append(label(name, x + 12, y + 24, size=15, color=INK, anchor="start"))
            parts.append(
                label(
                    _purpose(root / "server" / "aliquot" / name), x + 130, y + 24, size=11, color=FAINT, anchor="start"
                )
            )
    return parts


def _purpose(place: Path) -> str:
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    first = first_sentence(file)
    return first if len(first) <= 84 else first[:82].rsplit(" ", 1)[0] + " …"
