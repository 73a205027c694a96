"""Enumerations whose members carry a description. GraphQL, the documentation and the dashboard show it.

A member is written as `NAME = "value", "Description."`.
"""

from enum import IntEnum, StrEnum


class DescribedStr(StrEnum):
    """An enumeration of texts."""

    _value_: str
    description: str

    def __new__(cls, value: str, description: str = "") -> "DescribedStr":
        """A member; it is equal to its value."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.description = description
        return member


class DescribedInt(IntEnum):
    """An enumeration of numbers, which are ordered."""

    _value_: int
    description: str

    def __new__(cls, value: int, description: str = "") -> "DescribedInt":
        """A member; it is equal to its value."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.description = description
        return member
