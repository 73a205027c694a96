"""The documentation, built by the command that users run."""

import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
BUILD_S_MAX: Final = 900.0


def built_pages() -> Path:
    """Build, if a source has changed, and return the folder of the pages; fails on warnings of the build."""
    outcome = subprocess.run(
        [ROOT / "scripts" / "docs"], capture_output=True, text=True, timeout=BUILD_S_MAX, check=False
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return ROOT / "build" / "docs" / "html"
