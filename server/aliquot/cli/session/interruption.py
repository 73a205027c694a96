"""Ctrl-C while a session is followed: it is the session's owner who knows what that means."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum


class Choice(StrEnum):
    """What is to become of the session."""

    LEAVE = "b"
    CANCEL = "c"
    STAY = "f"


@contextmanager
def undivided() -> Iterator[None]:
    """Have Ctrl-C wait for the end of what must be done as a whole; for the main thread."""
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def ask_what_to_do(id: str) -> Choice:
    """Ask; without a terminal, or when interrupted again, the session is left to go on."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        _say_where(id)
        return Choice.LEAVE
    print(f"\n{id}: [b] leave it to go on in the background, [c] cancel it, [f] follow on?", file=sys.stderr)
    try:
        choice = _read()
    except (EOFError, KeyboardInterrupt):
        choice = Choice.LEAVE
    if choice is Choice.LEAVE:
        _say_where(id)
    return choice


def _read() -> Choice:
    while True:
        print("b, c or f [b]: ", end="", file=sys.stderr, flush=True)
        text = input().strip().lower()[:1] or Choice.LEAVE.value
        if text in list(Choice):
            return Choice(text)


def _say_where(id: str) -> None:
    print(
        f"it goes on; `aliquot session logs -f {id}` follows it, `aliquot session cancel {id}` ends it", file=sys.stderr
    )
