"""The documentation, built by the command that people use, but for the setup."""

import os
import subprocess
import sys
from pathlib import Path

from docs_tree import DOCS

BUILD_S_MAX = 240.0


def built_pages(target: Path) -> Path:
    """Build into a folder and return the one with the pages; a warning of the build fails."""
    command = [sys.executable, "-m", "aliquot_docs", str(target)]
    environment = os.environ | {"PYTHONPATH": str(DOCS)}
    outcome = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BUILD_S_MAX, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return target / "html"
