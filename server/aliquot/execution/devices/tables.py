"""TOML tables: validation of configuration; errors name the file, the key and the valid values."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

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

    @model_validator(mode="wrap")
    @classmethod
    def _with_all_problems(cls, values: Any, check: ModelWrapValidatorHandler[Self]) -> Self:
        """Report unknown keys together with wrong values; a key that is only misspelled is not missing too."""
        try:
            return check(values)
        except ValidationError as error:
            found = error.errors()
            unknown = [str(one["loc"][0]) for one in found if one["type"] == "extra_forbidden" and len(one["loc"]) == 1]
            if not unknown:
                raise
        valid = [field.alias or name for name, field in cls.model_fields.items()]
        meant = {key: next(iter(get_close_matches(key, valid, n=1)), None) for key in unknown}
        spelled = {(key,) for key in (*unknown, *meant.values())}
        others = (
            one for one in found if one["loc"] not in spelled or one["type"] not in ("missing", "extra_forbidden")
        )
        problems = [_unknown(meant, valid=valid, values=values), *map(as_detail, others)]
        raise ValidationError.from_exception_data(cls.__name__, problems)


def as_detail(problem: Any) -> InitErrorDetails:
    """A validation problem as one that can be raised together with others."""
    type_ = PydanticCustomError(problem["type"], "{words}", {"words": problem["msg"]})
    return InitErrorDetails(type=type_, loc=problem["loc"], input=problem["input"])


def _unknown(meant: Mapping[str, str | None], *, valid: list[str], values: object) -> InitErrorDetails:
    hints = "".join(f"; did you mean {name!r} for {key!r}?" for key, name in meant.items() if name is not None)
    fields = {"keys": ", ".join(map(repr, meant)), "valid": ", ".join(valid), "hints": hints}
    words = PydanticCustomError("unknown_key", "unknown key {keys}; valid keys: {valid}{hints}", fields)
    return InitErrorDetails(type=words, input=values)


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
