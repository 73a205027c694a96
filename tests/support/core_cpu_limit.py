"""A plug-in of pytest: a test that takes too much CPU fails, however slow the machine is. For mutants that loop."""

import signal
from collections.abc import Generator
from types import FrameType
from typing import Final

import pytest

CPU_S_MAX: Final = 8


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Wound up for every test; it counts the time of the process, not of the clock."""
    signal.signal(signal.SIGVTALRM, _stop)
    # Again and again: Hypothesis tries once more what has failed.
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S_MAX, 1)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"more than {CPU_S_MAX} s of CPU")
