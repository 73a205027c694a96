"""Letters as plain text."""

from collections.abc import Iterator
from typing import Final

from aliquot.service.notices.letters import Letter
from aliquot_schema.notices import Delivery

SHOWN_MAX: Final = 100
"""Notices told in one letter; the rest are counted."""


def lines(letter: Letter) -> Iterator[str]:
    """Each notice, with the end of the output behind it."""
    details = letter.details or ("",) * len(letter.notices)
    for one, output in list(zip(letter.notices, details, strict=True))[:SHOWN_MAX]:
        yield f"{_mark(one)} {one.words}"
        if output:
            yield from ("", "The last lines of its output:", *(f"    {line}" for line in output.splitlines()), "")
    if len(letter.notices) > SHOWN_MAX:
        yield f"... and {len(letter.notices) - SHOWN_MAX} more"


def _mark(one: Delivery) -> str:
    return "[over]" if one.is_over else f"[{one.severity.name.lower()}]"
