"""Descriptions: of arguments, and of fields of inputs that may be left out."""

from typing import Any

import strawberry


def argument(description: str) -> Any:
    """What an argument says."""
    return strawberry.argument(description=description)


def optional(description: str) -> Any:
    """A field of an input that is null when it is left out."""
    return strawberry.field(default=None, description=description)
