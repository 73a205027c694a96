"""Setting errors: validation messages of settings without pydantic's own text, and duration types of settings."""

from typing import Annotated

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from aliquot_schema.errors import InvalidRequest
from aliquot_schema.resources.units import DURATION_FORM, parse_duration


def wrong(words: str) -> PydanticCustomError:
    """The exception for a validator to raise, with this text as the whole message."""
    return PydanticCustomError("wrong", "{words}", {"words": words})


def read_seconds(value: object) -> object:
    """Parse text as a duration; other values are returned unchanged for pydantic to check."""
    if not isinstance(value, str):
        return value
    try:
        return parse_duration(value)
    except InvalidRequest:
        raise wrong(f"not a duration; {DURATION_FORM}") from None


Seconds = Annotated[float, BeforeValidator(read_seconds)]
"""A duration setting: a number of seconds, or text such as `2h30m`."""
WholeSeconds = Annotated[int, BeforeValidator(read_seconds)]
"""As `Seconds`, in whole seconds."""
