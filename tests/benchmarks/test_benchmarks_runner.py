"""The benchmark runner, from outside; measured values depend on the machine and are not asserted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

RUNNER = Path(__file__).parent


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, RUNNER, *arguments], capture_output=True, text=True, timeout=240, check=False
    )


def test_an_unknown_benchmark_is_refused_with_the_list_of_known_ones() -> None:
    outcome = run("--only", "nothing_like_it")
    assert outcome.returncode == 2
    assert outcome.stdout == ""
    assert "nothing_like_it" in outcome.stderr
    for key in ("start_latency_p50_s", "jobs_per_s", "restart_s", "crash_lost"):
        assert key in outcome.stderr


@pytest.mark.slow
def test_json_output_is_a_single_object() -> None:
    outcome = run("--only", "start_latency_p50_s", "--json")
    assert outcome.returncode == 0, outcome.stderr
    (value,) = json.loads(outcome.stdout).items()
    assert value[0] == "start_latency_p50_s"
    assert value[1] > 0
