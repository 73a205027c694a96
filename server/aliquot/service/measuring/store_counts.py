"""Counts of the database: how long commits and reads take, which fail, and whether it answers at all."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

from aliquot.service.measuring.tallies import SHORT_S, Histogram, Tally
from aliquot.service.ports import StoreUnavailable

Work = Literal["commit", "write", "read"]
WORK: Final[tuple[Work, ...]] = ("commit", "write", "read")

MISTRUST_S: Final = 30.0
"""A database that could not be written is taken to be down so long, even when it can be read meanwhile."""


class StoreMeasures:
    """Filled by the store around each piece of work."""

    def __init__(self) -> None:
        self.seconds = Histogram(SHORT_S, "work")
        self.faults = Tally("work")
        """Pieces of work that the database could not do."""
        self.is_up = True
        self._not_written_at: float | None = None
        for work in WORK:
            self.seconds.begin(work)
            self.faults.begin(work)

    @contextmanager
    def timed(self, work: Work) -> Iterator[None]:
        """Measure what is done inside. Whatever it raises but `StoreUnavailable` is an answer of the database."""
        began = time.perf_counter()
        try:
            yield
        except StoreUnavailable:
            self.faults.add(work)
            self.is_up = False
            if work != "read":
                self._not_written_at = time.monotonic()
            raise
        finally:
            self.seconds.observe(time.perf_counter() - began, work)
        self._answered(work)

    def note_silence(self) -> None:
        """It was asked, and did not answer in time."""
        self.is_up = False

    def _answered(self, work: Work) -> None:
        if work != "read":
            self._not_written_at = None
        if self._not_written_at is None or time.monotonic() - self._not_written_at > MISTRUST_S:
            self.is_up = True
