"""A progress bar on stderr, where that is a terminal."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

SHOWN_EVERY_S: Final = 0.2
"""Telling the bar costs more than a pass of a small cluster."""


class Tell(Protocol):
    """Call it with how much is done."""

    def __call__(self, done: int, of: int | None = None, /) -> None:
        """`of` is the total, where it was not known at the start."""


@contextmanager
def bar(label: str, *, total: int | None) -> Iterator[Tell]:
    """Show how far something is."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(label, total=total)
        told_at = 0.0

        def tell(done: int, of: int | None = None, /) -> None:
            nonlocal told_at
            now = time.monotonic()
            if now - told_at >= SHOWN_EVERY_S:
                told_at = now
                progress.update(task, completed=done, total=of)

        yield tell
