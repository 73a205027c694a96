"""What is wrong with a setting, as pydantic tells it: in our words alone."""

from pydantic_core import PydanticCustomError


def wrong(words: str) -> PydanticCustomError:
    """To be raised by a validator."""
    return PydanticCustomError("wrong", "{words}", {"words": words})
