"""Words of a command line that are one of a few."""

from enum import StrEnum
from typing import TypeVar

from aliquot.cli.connection.asking import usage

E = TypeVar("E", bound=StrEnum)


def choice(kinds: type[E], text: str, *, of: str) -> E:
    """The member that a word names, with `-` for `_`; of another word is said which there are, and the command ends.

    Args:
        of: what it is called: a role, an order.
    """
    try:
        return kinds(text.replace("-", "_"))
    except ValueError:
        usage(f"there is no {of} {text}; it is one of {', '.join(kinds)}")
