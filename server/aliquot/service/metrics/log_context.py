"""Log lines: fields such as request, agent or pass, added to every line inside a context; and limits on lines that
strangers can cause."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_NONE: Final[Mapping[str, object]] = {}
_fields: ContextVar[Mapping[str, object]] = ContextVar("aliquot_log_fields", default=_NONE)


def log_fields() -> Mapping[str, object]:
    """The current fields."""
    return _fields.get()


@contextmanager
def logging_with(**fields: object) -> Iterator[None]:
    """Add fields to all log lines inside the context, including those of tasks started inside."""
    token = _fields.set({**_fields.get(), **fields})
    try:
        yield
    finally:
        _fields.reset(token)


LINES_PER_MINUTE: Final = 60


class LineRate:
    """Limits log lines that strangers can cause: the first ones of each minute are logged, the others counted."""

    def __init__(
        self,
        log: logging.Logger,
        what: str,
        *,
        per_minute: int = LINES_PER_MINUTE,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            what: what the lines are about, as a plural noun for the line that counts them.
            monotonic: seconds from an arbitrary start.
        """
        self._monotonic = monotonic
        self._log = log
        self._what = what
        self._per_minute = per_minute
        self._minute = 0
        self._lines = 0

    def allows(self) -> bool:
        """Whether one more line may be logged now. Logs how many were not, when a later minute begins."""
        minute = int(self._monotonic() // 60)
        if minute != self._minute:
            left_out, self._minute, self._lines = self._lines - self._per_minute, minute, 0
            if left_out > 0:
                self._log.info("%d more %s were not logged", left_out, self._what)
        self._lines += 1
        return self._lines <= self._per_minute


class RateLimited(logging.Filter):
    """The same for the lines of a library that begin with some words."""

    def __init__(self, log: logging.Logger, words: str, what: str) -> None:
        super().__init__()
        self._words = words
        self._rate = LineRate(log, what)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is logged."""
        return not str(record.msg).startswith(self._words) or self._rate.allows()
