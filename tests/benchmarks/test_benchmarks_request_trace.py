"""Limit on the number of the project's modules that run for one submitted session."""

import json
import subprocess
import sys
from pathlib import Path

TRACE = Path(__file__).parent / "request_trace"
MODULES_MAX = {"resolver_to_answer": 50, "socket_to_shim": 118}
"""Only ever lowered: a change that shortens the path lowers these too."""


def test_the_number_of_modules_run_for_a_request_is_limited() -> None:
    outcome = subprocess.run(
        [sys.executable, TRACE, "--json"], capture_output=True, text=True, timeout=240, check=False
    )
    assert outcome.returncode == 0, outcome.stderr
    counts = json.loads(outcome.stdout)
    assert counts.keys() == MODULES_MAX.keys()
    assert 0 < counts["resolver_to_answer"] < counts["socket_to_shim"]
    longer = {stretch: count for stretch, count in counts.items() if count > MODULES_MAX[stretch]}
    assert longer == {}, "scripts/trace-request names the modules"
