"""Terms: how sessions and times are named in notices."""

from typing import Final

from aliquot_schema.sessions import Session

SECOND_US: Final = 1_000_000


def named(session: Session) -> str:
    """A session by its name, where it has one."""
    return session.id if session.name is None else f"{session.name} ({session.id})"


def duration(seconds: int) -> str:
    """`31 h`, `12 min`, `40 s`."""
    if seconds >= 2 * 3600:
        return f"{seconds // 3600} h"
    return f"{seconds // 60} min" if seconds >= 120 else f"{seconds} s"
