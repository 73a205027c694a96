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


def printable(text: str) -> str:
    """One line that every database, chat and mail server takes: names and causes of failures are other people's."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)
