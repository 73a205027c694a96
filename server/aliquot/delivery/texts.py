"""Letters as plain text."""

from collections.abc import Iterator
from typing import Final

from aliquot.service.notices.letters import Letter
from aliquot_schema.notices import Delivery

SHOWN_MAX: Final = 100
"""Notices told in one letter; the rest are counted."""
WORDS_CHARACTERS: Final = 2000


def lines(letter: Letter) -> Iterator[str]:
    """Each notice, with the end of the output behind it."""
    details = letter.details or ("",) * len(letter.notices)
    for one, output in list(zip(letter.notices, details, strict=True))[:SHOWN_MAX]:
        yield f"{_mark(one)} {one_line(one.words, most=WORDS_CHARACTERS)}"
        if output:
            yield from ("", "The last lines of its output:", *(f"    {line}" for line in output.splitlines()), "")
    if len(letter.notices) > SHOWN_MAX:
        yield f"... and {len(letter.notices) - SHOWN_MAX} more"


def one_line(text: str, *, most: int) -> str:
    """Without what would break a line: names are other people's, and none of them makes a notice of its own."""
    shown = "".join(sign if sign.isprintable() else " " for sign in text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def _mark(one: Delivery) -> str:
    return "[over]" if one.is_over else f"[{one.severity.name.lower()}]"
