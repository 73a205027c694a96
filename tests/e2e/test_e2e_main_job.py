"""The main job, as `scripts/up --once` runs it."""

import json
import os
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_the_acceptance_run_succeeds() -> None:
    outcome = subprocess.run(
        [sys.executable, "-m", "aliquot", "once", "--json"], capture_output=True, text=True, timeout=240, check=False
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    result = json.loads(outcome.stdout)
    assert result["ok"]
    assert [session["state"] for session in result["sessions"]].count("completed") == 10
    assert sum(len(session["kernels"]) for session in result["sessions"]) == 13
    assert _processes_mentioning("aliquot-once") == []


def _processes_mentioning(text: str) -> list[int]:
    return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if text in _command_line(pid)]


def _command_line(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
