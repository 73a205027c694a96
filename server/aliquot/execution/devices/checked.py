"""Tables from outside, checked: errors name the file, the key, and what would be right."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from aliquot.execution.devices.plugin import DeviceFileError
from aliquot_schema.errors import InvalidAmount
from aliquot_schema.sizes import parse_size


class Table(BaseModel):
    """A TOML table with a closed set of keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)

    @classmethod
    def checked(cls, values: Mapping[str, object], *, source: str) -> Self:
        """Read a table.

        Args:
            source: what it was read from; messages begin with it.
        Raises:
            DeviceFileError: an unknown key, a missing one, or a wrong value; all of them are named.
        """
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            found = [f"{_place(one['loc'])}{one['msg']}" for one in error.errors()]
            raise DeviceFileError("\n".join(f"{source}: {line}" for line in found)) from None

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, values: Any) -> Any:
        valid = [field.alias or name for name, field in cls.model_fields.items()]
        unknown = [key for key in values if key not in valid] if isinstance(values, dict) else []
        if unknown:
            words = {"keys": ", ".join(map(repr, unknown)), "valid": ", ".join(valid)}
            raise PydanticCustomError("unknown_key", "unknown key {keys}; valid keys: {valid}", words)
        return values


def _bytes(value: Any) -> Any:
    """Sizes with a suffix are binary; a bare number is bytes."""
    if not isinstance(value, str):
        return value
    try:
        return parse_size(value)
    except InvalidAmount as error:
        raise PydanticCustomError("size", "{words}", {"words": error.message}) from None


Size = Annotated[int, BeforeValidator(_bytes)]
"""Bytes, written as a number or with a suffix: `2G`."""


def _place(location: tuple[int | str, ...]) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return f"{path.removeprefix('.')}: " if path else ""
