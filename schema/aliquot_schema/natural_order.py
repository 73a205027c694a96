"""Natural order of names: cuda2 before cuda10."""

import re
from typing import Final

NaturalKey = tuple[tuple[tuple[str, int, str], ...], str]

_RUN: Final = re.compile(r"([^0-9]*)([0-9]*)")


def natural_key(text: str) -> NaturalKey:
    """A sort key that compares runs of the digits 0-9 as numbers of any length, and the rest as text.

    `a1` and `a01` are neighbours, ordered by their text; two different texts never have equal keys.
    """
    runs = []
    for letters, digits in _RUN.findall(text):
        number = digits.lstrip("0")
        runs.append((letters, len(number), number))
    return tuple(runs), text
