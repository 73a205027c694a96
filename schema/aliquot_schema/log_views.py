"""Read models of a piece of an output."""

from dataclasses import dataclass
from typing import Final

BYTES_MAX: Final = 1_048_576
"""Of one piece."""
BYTES_MIN: Final = 4
"""A character has no more; a shorter piece might hold none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLogView:
    """Some of what a kernel has printed. Offsets and lengths are bytes."""

    session_id: str
    kernel_id: str
    rank: int
    attempt: int
    offset: int
    """Of the first byte of `text`."""
    next_offset: int
    """Ask with this one to go on."""
    length: int
    """Of all that was printed when this was read."""
    left_out: int
    """How many bytes since the offset that was asked for are no longer kept."""
    has_more: bool
    """Whether more was printed than this, when this was read."""
    text: str
    """UTF-8; bytes that are not are shown as U+FFFD."""
    at_end: bool
    """Whether nothing will follow."""
