"""A pytest plug-in: holds each suite (a folder under tests/) to a time budget, and prints what each took.

Loaded by scripts/test. The budgets are limits for two slow cores, not measures of anything; they add up to less than an
hour. A suite may use what those before it have left; once that is gone too, the rest of it fails instead of running.
"""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

BUDGET_S: Final = {
    "core": 200,
    "schema": 20,
    "service": 190,
    "ledger": 290,
    "store": 180,
    "execution": 130,
    "api": 190,
    "client": 30,
    "cli": 40,
    "e2e": 1000,
    "readme": 30,
    "docs": 110,
    "rest": 130,
    "architecture": 60,
    "benchmarks": 50,
    "browser": 270,
    "simulation": 160,
    "load": 100,
    "docker": 110,
    "release": 80,
    "authorisation": 60,
    "attacks": 150,
    "mutation": 10,
}
BUDGET_S_OTHERS: Final = 60
"""For each suite that is not named above."""

_spent_s: Counter[str] = Counter()
_over: set[str] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Charge a test, with its fixtures, to its suite."""
    suite = _suite(item)
    began = time.monotonic()
    try:
        return (yield)
    finally:
        _spent_s[suite] += time.monotonic() - began
        allowed_s = sum(BUDGET_S.get(begun, BUDGET_S_OTHERS) for begun in _spent_s)
        if _spent_s[suite] > BUDGET_S.get(suite, BUDGET_S_OTHERS) and _spent_s.total() > allowed_s:
            _over.add(suite)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail what comes after its suite's budget was used up."""
    suite = _suite(item)
    if suite in _over:
        pytest.fail(f"the suite {suite!r} is over its time budget of {BUDGET_S.get(suite, BUDGET_S_OTHERS)} s", False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what each suite took."""
    terminalreporter.section("time by suite")
    for suite, spent in _spent_s.most_common():
        terminalreporter.line(f"{suite:<14}{spent:8.1f} s of {BUDGET_S.get(suite, BUDGET_S_OTHERS)}")


def _suite(item: pytest.Item) -> str:
    parts = Path(item.path).relative_to(item.config.rootpath).parts
    return parts[1] if len(parts) > 2 else parts[0]
