"""TOML tables: validation of configuration; errors name the file, the key and the valid values."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from aliquot.execution.devices.plugin import DeviceFileError
from aliquot_schema.errors import InvalidAmount
from aliquot_schema.resources.units import parse_size


class Table(BaseModel):
    """A TOML table with a closed set of keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)

    @classmethod
    def checked(cls, values: Mapping[str, object], *, source: str) -> Self:
        """Validate a table.

        Args:
            source: file or table name; messages begin with it.
        Raises:
            DeviceFileError: unknown or missing keys or wrong values, one line each.
        """
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            lines = [f"{_key_path(one['loc'])}{one['msg']}" for one in error.errors()]
            raise DeviceFileError("\n".join(f"{source}: {line}" for line in lines)) from None

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, values: Any) -> Any:
        valid = [field.alias or name for name, field in cls.model_fields.items()]
        unknown = [key for key in values if key not in valid] if isinstance(values, dict) else []
        if unknown:
            fields = {"keys": ", ".join(map(repr, unknown)), "valid": ", ".join(valid)}
            raise PydanticCustomError("unknown_key", "unknown key {keys}; valid keys: {valid}", fields)
        return values


def _bytes(value: Any) -> Any:
    """Parse a size: suffixes are binary, a bare number is bytes."""
    if not isinstance(value, str):
        return value
    try:
        return parse_size(value)
    except InvalidAmount as error:
        raise PydanticCustomError("size", "{message}", {"message": error.message}) from None


Size = Annotated[int, BeforeValidator(_bytes)]
"""Bytes, written as a number or with a binary suffix: `2G`."""


def _key_path(location: tuple[int | str, ...]) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return f"{path.removeprefix('.')}: " if path else ""
