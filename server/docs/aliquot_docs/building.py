"""Documentation build: copies the sources, adds the generated pages, and runs Sphinx."""

import shutil
from pathlib import Path
from typing import Final

from sphinx.cmd.build import build_main

from aliquot_docs.written import ROOT, write

SOURCES: Final = ROOT / "server" / "docs"
SERVED: Final = ROOT / "server" / "aliquot" / "docs_dist"
"""From here the server serves the pages at `/docs`, and the wheel takes them."""
_BUILDERS_OWN: Final = ("*.map", "_sources", ".doctrees", ".buildinfo*", "objects.inv")


def build(target: Path) -> int:
    """Build the pages into `target/html`. A warning is an error.

    Returns:
        Sphinx's exit code, 0 for success.
    """
    source = target / "source"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(SOURCES, source, ignore=shutil.ignore_patterns("aliquot_docs", "__pycache__", ".*"))
    write(source)
    return build_main(["-q", "-W", "--keep-going", "-n", "-b", "html", str(source), str(target / "html")])


def publish(target: Path) -> None:
    """Copy the built pages of `target` to where the server serves them. A running server never finds half of them."""
    fresh = SERVED.with_name(f"{SERVED.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(target / "html", fresh, ignore=shutil.ignore_patterns(*_BUILDERS_OWN))
    shutil.rmtree(SERVED, ignore_errors=True)
    fresh.rename(SERVED)
