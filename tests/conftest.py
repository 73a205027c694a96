"""For all suites: a test file leaves nothing behind in the process that would affect later files."""

import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

import machine_lacks
import warm_starts
from core_effort import SHORT, USUAL
from long_tests import IS_LONG
from machine_lacks import STRICT, MachineLacks

# A slow machine must not fail a test.
settings.register_profile(
    "unhurried",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=USUAL if IS_LONG else SHORT,
)
settings.load_profile("unhurried")

if not IS_LONG:
    warm_starts.install()

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
LIMITS: Final = (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE, resource.RLIMIT_NPROC)
OURS: Final = ("aliquot", "uvicorn")
"""Loggers configured by servers; libraries configure their own on import."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skip a test that needs what the machine lacks; equal reasons are one line of the summary."""
    report = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, MachineLacks) and STRICT not in os.environ:
        report.outcome = "skipped"
        report.longrepr = (machine_lacks.__file__, 1, f"Skipped: {call.excinfo.value}")
    return report


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    before = _of_the_process()
    yield
    assert _of_the_process() == before


def _of_the_process() -> dict[str, object]:
    root = logging.getLogger()
    return {
        "collector of garbage": gc.isenabled(),
        "turns of threads": sys.getswitchinterval(),
        "folder": Path.cwd(),
        "environment": {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"},
        "umask": next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Umask")),
        "limits": [resource.getrlimit(limit) for limit in LIMITS],
        "signals": [signal.getsignal(number) for number in SIGNALS],
        "root logger": (root.level, root.disabled, [type(handler) for handler in root.handlers]),
        "loggers": {name: found for name, found in _loggers() if found != (logging.NOTSET, True, False, 0)},
    }


def _loggers() -> Iterator[tuple[str, tuple[int, bool, bool, int]]]:
    for name, one in list(logging.root.manager.loggerDict.items()):
        if isinstance(one, logging.Logger) and name.startswith(OURS):
            yield name, (one.level, one.propagate, one.disabled, len(one.handlers))
