"""A pytest plug-in that fails tests using too much CPU time; for mutants that loop."""

import signal
from collections.abc import Generator
from types import FrameType
from typing import Final

import pytest

CPU_S_MAX: Final = 8


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Starts a timer of CPU time, not wall time, for every test."""
    signal.signal(signal.SIGVTALRM, _stop)
    # Repeated, since Hypothesis retries failures.
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S_MAX, 1)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"more than {CPU_S_MAX} s of CPU")
