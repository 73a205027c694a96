"""The dashboard's own checks: unit tests, lint, and types."""

import shutil
import subprocess

import pytest

from machine_lacks import DASHBOARD, node_with

NPM = shutil.which("npm")


@pytest.mark.skipif(NPM is None, reason="npm is not installed")
@pytest.mark.parametrize("words", [("run", "--silent", "test"), ("exec", "--", "tsc", "--noEmit")])
def test_the_unit_tests_and_checks_of_the_dashboard_pass(words: tuple[str, ...]) -> None:
    assert NPM is not None
    node_with("vitest")
    found = subprocess.run([NPM, *words], cwd=DASHBOARD, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stdout + found.stderr
