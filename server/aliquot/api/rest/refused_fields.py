"""Refused fields: why a JSON body or a query does not have the type of its operation, in words for people.

Each text names the field, what it takes, and an example.
"""

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import inspect

from aliquot_schema.sessions import PRIORITIES, PRIORITY_FORM

_PLACE: Final = re.compile(r"(?P<why>.*?)(?: - at `\$(?P<path>[^`]*)`)?", re.DOTALL)
_FIELD: Final = re.compile(r"Object (?P<what>contains unknown|missing required) field `(?P<name>[^`]*)`")
_PART: Final = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>[^\]]*)\]")
_GOT: Final = re.compile(r"Expected `[^`]*`, got `(?P<got>[^`]*)`")
_LENGTH: Final = re.compile(r"Expected `[^`]*` of length (?P<than>>=|<=) \d+")
_NUMBER: Final = re.compile(r"[-+.\d][-+.\deE]*")
_NO_ZONE: Final = "Expected `datetime` with a timezone component"
_GIVEN: Final = {"str": "text", "int": "a number", "float": "a number", "bool": "true or false", "object": "an object",
                 "array": "a list", "null": "null"}  # fmt: skip
_EXAMPLES: Final = {
    "priority": "normal",
    "user_priority_max": "normal",
    "command": "python3 train.py",
    "job_id": "notebook",
    "project": "vision",
    "pool": "default",
    "time_limit": "2h30m",
    "estimated_duration": "45m",
    "lease": "10m",
    "order": "fair_share",
    "month": "2026-11",
}
"""By name of the field; others get an example by their type."""
_Lists: Final = (inspect.ListType, inspect.VarTupleType)


class RefusedField(NamedTuple):
    """Why a value does not have its type."""

    path: str | None
    """`policy_config.pools[0].name`; None = the value is wrong as a whole."""
    text: str
    """What is wrong with it, and how it is written."""


def refused_field(error: msgspec.ValidationError, kind: Any) -> RefusedField:
    """The field whose value does not have the type that `kind` gives it."""
    found = _PLACE.fullmatch(str(error))
    assert found is not None  # any text matches
    parts = [part[0].removeprefix(".") for part in _PART.finditer(found["path"] or "")]
    described = inspect.type_info(kind)
    about_field = _FIELD.fullmatch(found["why"])
    if about_field is not None:
        return _about_field(about_field, _at(described, parts), within=parts)
    path = _path(parts)
    field, expected = path or "the body", _at(described, parts)
    if expected is None:
        return RefusedField(path, f"{field}: {found['why']}")
    name = parts[-1] if parts and not parts[-1].startswith("[") else ""
    example = json.dumps(_example(expected, name))
    example = f'"{name}": {example}' if name else example
    return RefusedField(path, f"{field}: {_wrong(found['why'])}; give {_takes(expected)}, like {example}")


def refused_number(given: Mapping[str, str], kind: Any) -> RefusedField | None:
    """A number in place of a time: it would be read as the seconds since 1970."""
    for name, described in _fields(inspect.type_info(kind)).items():
        if name in given and _NUMBER.fullmatch(given[name]) and _is_time(described):
            example = json.dumps(_example(described, name))
            return RefusedField(name, f'{name}: it is a number; give {_takes(described)}, like "{name}": {example}')
    return None


def _is_time(described: inspect.Type) -> bool:
    return any(isinstance(one, inspect.DateTimeType) for one in _alternatives(described))


def _path(parts: list[str]) -> str | None:
    return ".".join(parts).replace(".[", "[") or None


def _about_field(found: re.Match[str], struct: inspect.Type | None, *, within: list[str]) -> RefusedField:
    name = found["name"]
    path = _path([*within, name])
    fields = _fields(struct)
    if found["what"] == "contains unknown":
        close = get_close_matches(name, fields, n=1)
        meant = f"; did you mean {close[0]}?" if close else "."
        return RefusedField(path, f"{path}: there is no such field{meant} The fields are {', '.join(fields)}")
    missing = fields[name]
    example = json.dumps(_example(missing, name))
    return RefusedField(path, f'{path}: it is missing; give {_takes(missing)}, like "{name}": {example}')


def _at(described: inspect.Type, parts: list[str]) -> inspect.Type | None:
    """The type at a path; None where the path is not known."""
    found: inspect.Type | None = described
    for part in parts:
        found = _inner(found, part)
    return found


def _inner(described: inspect.Type | None, part: str) -> inspect.Type | None:
    for one in _alternatives(described):
        if isinstance(one, _Lists):
            return one.item_type
        if isinstance(one, inspect.StructType) and part in _fields(one):
            return _fields(one)[part]
    return None


def _alternatives(described: inspect.Type | None) -> list[inspect.Type]:
    """The types of a union, without null and without their descriptions."""
    if isinstance(described, inspect.Metadata):
        return _alternatives(described.type)
    if isinstance(described, inspect.UnionType):
        return [inner for one in described.types for inner in _alternatives(one)]
    return [] if described is None or isinstance(described, inspect.NoneType) else [described]


def _fields(struct: inspect.Type | None) -> dict[str, inspect.Type]:
    for one in _alternatives(struct):
        if isinstance(one, inspect.StructType):
            return {field.encode_name: field.type for field in one.fields}
    return {}


def _wrong(why: str) -> str:
    """`it is text`, or the message where it is about a limit."""
    got = _GOT.fullmatch(why)
    if got is not None:
        return f"it is {_GIVEN.get(got['got'], got['got'])}"
    if why == _NO_ZONE:
        return "it has no zone"
    length = _LENGTH.fullmatch(why)
    if length is not None:
        return "it is empty" if length["than"] == ">=" else "it is too long"
    if " matching regex " in why:
        return "it is not of this form"
    return (
        why.removeprefix("Invalid enum value ") + " is not allowed"
        if why.startswith("Invalid enum")
        else ("it is out of range" if why.startswith("Expected") else why)
    )


def _takes(described: inspect.Type) -> str:
    return " or ".join(dict.fromkeys(map(_takes_one, _alternatives(described))))


def _takes_one(one: inspect.Type) -> str:  # noqa: C901 # one case per type
    match one:
        case inspect.IntType():
            return f"a whole number{_range(one)}"
        case inspect.FloatType():
            return f"a number{_range(one)}"
        case inspect.StrType():
            most = "" if one.max_length is None else f" of at most {one.max_length} characters"
            return f"text{most}"
        case inspect.LiteralType() if set(map(str, one.values)) == set(PRIORITIES):
            return PRIORITY_FORM
        case inspect.LiteralType():
            return f"one of {', '.join(dict.fromkeys(map(str, one.values)))}"
        case inspect.EnumType():
            return f"one of {', '.join(str(member.value) for member in one.cls)}"
        case inspect.BoolType():
            return "true or false"
        case inspect.DateTimeType():
            return "a time with its zone"
        case inspect.ListType() | inspect.VarTupleType():
            return f"a list, each {_takes(one.item_type)}"
        case inspect.StructType():
            return f"an object with the fields {', '.join(_fields(one))}"
    return "another value"


def _range(one: inspect.IntType | inspect.FloatType) -> str:
    least = one.ge if one.ge is not None else one.gt
    most = one.le if one.le is not None else one.lt
    if least is not None and most is not None:
        first, last = _number(least), _number(most)
        return f" from {first} to {last}" if one.gt is None else f" above {first}, at most {last}"
    return f" of {_number(least)} or more" if least is not None else ""


def _number(value: float) -> str:
    """315360000, not 3.1536e+08."""
    return str(int(value)) if value == int(value) else f"{value:g}"


def _example(described: inspect.Type, name: str) -> Any:
    one = _alternatives(described)[0]
    if name in _EXAMPLES and not isinstance(one, inspect.EnumType):
        return _EXAMPLES[name]
    match one:
        case inspect.IntType() | inspect.FloatType():
            return max(1, int(one.ge or 1))
        case inspect.LiteralType():
            return one.values[0]
        case inspect.EnumType():
            return next(iter(one.cls)).value
        case inspect.BoolType():
            return True
        case inspect.DateTimeType():
            return "2026-03-01T12:00:00Z"
        case inspect.ListType() | inspect.VarTupleType():
            return [_example(one.item_type, "")]
        case inspect.StructType():
            needed = (field for field in one.fields if field.required)
            return {field.encode_name: _example(field.type, field.encode_name) for field in needed}
    return "text"
