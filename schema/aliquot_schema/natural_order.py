"""Natural order of names: `cuda2` comes before `cuda10`."""

import re
from typing import Final

_RUNS: Final = re.compile(r"(\d+)", re.ASCII)


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key in which runs of digits count as numbers, and come before other characters.

    The text itself breaks ties (`a1`, `a01`), so that different names never compare equal.
    """
    runs = (part for part in _RUNS.split(text) if part)
    key = tuple((0, int(run), "") if run.isdecimal() and run.isascii() else (1, 0, run) for run in runs)
    return (*key, (2, 0, text))
