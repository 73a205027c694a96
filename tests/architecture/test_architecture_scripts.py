"""The scripts are valid bash and executable."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from architecture_sources import ROOT

NAMES = ("up", "test", "check", "bench", "simulate", "mutate", "docs", "trace-request", "record-names")
COMMANDS = [*(ROOT / "scripts" / name for name in NAMES), ROOT / ".ci" / "run"]


@pytest.mark.parametrize("script", [*COMMANDS, ROOT / "scripts" / "setup"], ids=lambda path: path.name)
def test_a_script_is_valid_bash(script: Path) -> None:
    bash = shutil.which("bash")
    assert bash
    outcome = subprocess.run([bash, "-n", script], capture_output=True, text=True, timeout=30, check=False)
    assert outcome.returncode == 0, outcome.stderr


@pytest.mark.parametrize("script", COMMANDS, ids=lambda path: path.name)
def test_a_script_is_executable(script: Path) -> None:
    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!/usr/bin/env bash\n")
