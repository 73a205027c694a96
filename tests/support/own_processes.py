"""Processes that tests start, and their end."""

import subprocess
from typing import Any, Final

END_S_MAX: Final = 60.0


def end(process: "subprocess.Popen[Any]") -> None:
    """Ask a process to end, and kill it when it does not; one that has ended is left alone."""
    process.terminate()
    try:
        process.wait(END_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
