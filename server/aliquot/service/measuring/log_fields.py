"""Fields of log lines: the request, the agent or the pass that whatever is logged meanwhile belongs to."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_NONE: Final[Mapping[str, object]] = {}
_fields: ContextVar[Mapping[str, object]] = ContextVar("aliquot_log_fields", default=_NONE)


def log_fields() -> Mapping[str, object]:
    """Those that hold here and now."""
    return _fields.get()


@contextmanager
def logging_with(**fields: object) -> Iterator[None]:
    """Add fields to everything that is logged inside, and by tasks that are begun inside."""
    token = _fields.set({**_fields.get(), **fields})
    try:
        yield
    finally:
        _fields.reset(token)
