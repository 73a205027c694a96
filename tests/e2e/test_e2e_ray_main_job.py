"""The main job on Ray, as `scripts/up --once --executor ray` runs it."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_the_acceptance_run_succeeds_on_ray() -> None:
    command = [sys.executable, "-m", "aliquot", "once", "--executor", "ray", "--json"]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    result = json.loads(outcome.stdout)
    assert result["ok"]
    assert [session["state"] for session in result["sessions"]].count("completed") == 10
