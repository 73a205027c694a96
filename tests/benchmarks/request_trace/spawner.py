"""The spawner and its shims, traced: `python -I -S -E spawner.py FOLDER TRACE` runs the program in that folder.

Each call of a function of the folder, and each `execve`, becomes a line of the file TRACE: the time in nanoseconds of
the monotonic clock, and the path of the module or `execve`. A forked shim goes on tracing. Imports the standard library
alone, because the spawner runs without anything else.
"""

import os
import runpy
import sys
import time
from types import FrameType

FUNCTION = 0x03
"""CO_OPTIMIZED and CO_NEWLOCALS: absent from modules and class bodies."""
PROGRAM, TRACE = sys.argv[1:]


def note(frame: FrameType, event: str, argument: object) -> None:
    """The profiling function."""
    if event == "call":
        code = frame.f_code
        if code.co_filename.startswith(PROGRAM) and code.co_flags & FUNCTION == FUNCTION:
            write(code.co_filename)
    elif event == "c_call" and getattr(argument, "__name__", "") == "execve":
        write("execve")


def write(what: str) -> None:
    """Add a line. The file is opened each time, because the spawner closes unknown files."""
    try:
        file = os.open(TRACE, os.O_WRONLY | os.O_APPEND)
    except OSError:
        return  # the job's account may not: the line is missing, and the job runs
    os.write(file, f"{time.monotonic_ns()} {what}\n".encode())
    os.close(file)


if __name__ == "__main__":
    sys.setprofile(note)
    runpy.run_path(PROGRAM, run_name="__main__")
