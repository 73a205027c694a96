"""Whole runs of the service under faults of all kinds, each repeatable by its seed."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from long_tests import IS_LONG
from simulation_run import simulate

ROOT = Path(__file__).parents[2]
SUPPORT = ROOT / "tests" / "support"
PRINT = "from simulation_run import simulate; print([simulate(seed).digest for seed in (3, 14)])"
BLOCK = 20
SEEDS = 300 if IS_LONG else 40
"""`scripts/test --long` runs them all."""
FRESH_S = 240 if IS_LONG else 12

blocks = [pytest.param(first, marks=[pytest.mark.slow] * (first > 1)) for first in range(1, SEEDS, BLOCK)]


@pytest.mark.parametrize("first", blocks)
def test_no_seed_breaks_a_rule(first: int) -> None:
    struck: Counter[str] = Counter()
    happened: Counter[str] = Counter()
    checked: Counter[str] = Counter()
    for seed in range(first, first + BLOCK):
        outcome = simulate(seed)
        struck.update(outcome.faults)
        happened.update(outcome.kinds)
        checked.update(passes=outcome.passes, agreed=outcome.agreed)
    # A run without events proves nothing.
    assert len(struck) == 12
    assert min(checked["passes"], checked["agreed"]) > 10
    for kind in (
        "session.requeued",
        "session.canceled",
        "session.split",
        "agent.lost",
        "kernel.stopping",
        "action.clock_corrected",
    ):
        assert happened[kind] > 0, f"no {kind} in seeds {first} to {first + BLOCK - 1}"


@pytest.mark.slow
def test_fresh_seeds_break_no_rule_either() -> None:
    """For a fixed time, from a random seed. A failure report has the seed and the minimal faults."""
    command = [sys.executable, "-m", "simulation_command", "--fresh", "--shrink", "--for", str(FRESH_S)]
    environment = os.environ | {"PYTHONPATH": _paths()}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    print(found.stdout)
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_same_seed_gives_the_same_run_byte_for_byte() -> None:
    """Independent of string hashes and object addresses."""
    digests = {_digests(hash_seed) for hash_seed in ("1", "2")}
    assert len(digests) == 1


def _digests(hash_seed: str) -> str:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": _paths()}
    command = [sys.executable, "-c", PRINT]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=240).stdout


def _paths() -> str:
    return os.pathsep.join([str(SUPPORT), str(ROOT / "server"), str(ROOT / "schema")])
