"""The dashboard's own checks: what computes, how it is written, and its types."""

import shutil
import subprocess
from pathlib import Path

import pytest

DASHBOARD = Path(__file__).parents[2] / "server" / "dashboard"
NPM = shutil.which("npm")


@pytest.mark.skipif(
    NPM is None or not (DASHBOARD / "node_modules").is_dir(), reason="Node is not here, or what scripts/test installs"
)
@pytest.mark.parametrize("words", [("run", "--silent", "test"), ("exec", "--", "tsc", "--noEmit")])
def test_the_dashboards_own_checks_pass(words: tuple[str, ...]) -> None:
    assert NPM is not None
    found = subprocess.run([NPM, *words], cwd=DASHBOARD, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stdout + found.stderr
