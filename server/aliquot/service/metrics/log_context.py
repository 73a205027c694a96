"""Log context: fields such as request, agent or pass, added to every log line inside a context."""

from collections.abc import Iterator, Mapping
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
