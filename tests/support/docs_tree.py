"""The documentation's sources and its generator, which no package of the server has."""

import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "server" / "docs"

if str(DOCS) not in sys.path:
    sys.path.insert(0, str(DOCS))


def pages() -> list[Path]:
    """Every hand-written page."""
    return sorted(path for path in DOCS.rglob("*.md") if "aliquot_docs" not in path.parts)
