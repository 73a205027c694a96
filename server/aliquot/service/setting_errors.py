"""Setting errors: validation messages without pydantic's own text, names of settings, and their duration types."""

import os
import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, AliasChoices, BeforeValidator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from aliquot_schema.errors import InvalidRequest
from aliquot_schema.resources.units import DURATION_FORM, parse_duration

_PREFIXES: Final = ("ALIQUOT_", "RESEARCH_AGENT_")
"""Of variables of the environment."""


def wrong(words: str) -> PydanticCustomError:
    """The exception for a validator to raise, with this text as the whole message."""
    return PydanticCustomError("wrong", "{words}", {"words": words})


def identifier(*, characters_max: int) -> AfterValidator:
    """The validator of a name that is also part of paths and addresses."""

    def check(name: str) -> str:
        if not re.fullmatch(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{characters_max - 1}}}", name):
            raise wrong(
                f"a name here has 1 to {characters_max} of the letters A to Z, digits, dots, dashes and underscores, "
                "and begins with a letter or a digit"
            )
        return name

    return AfterValidator(check)


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


def kebab(name: str) -> str:
    """The name of a setting in the file and as a flag."""
    return name.replace("_", "-")


def not_text(flags: Mapping[str, object]) -> str | None:
    """The first flag or variable of the environment that is not text in UTF-8; None if there is none."""
    variables = {name: text for name, text in os.environ.items() if name.upper().startswith(_PREFIXES)}
    given = variables | {f"--{kebab(name)}": text for name, text in flags.items()}
    return next((name for name, text in given.items() if re.search(r"[\ud800-\udfff]", str(text))), None)


def given_variable(field: str, fields: Mapping[str, FieldInfo]) -> str | None:
    """The variable of the environment that gives a setting; None if none does."""
    info = fields.get(field)
    alias = None if info is None else info.validation_alias
    names = [str(choice) for choice in alias.choices] if isinstance(alias, AliasChoices) else [f"ALIQUOT_{field}"]
    wanted = [name.upper() for name in names if name.upper().startswith(_PREFIXES)]
    return next((name for wish in wanted for name in os.environ if name.upper() == wish), None)


def setting_named(name: str, fields: Mapping[str, FieldInfo]) -> str:
    """The field that a name in the file or in the environment stands for."""
    for field, info in fields.items():
        alias = info.validation_alias
        names = [str(choice) for choice in alias.choices] if isinstance(alias, AliasChoices) else [kebab(field)]
        if name.lower() in (field, *map(str.lower, names)):
            return field
    return name


def not_json(message: str, fields: Mapping[str, FieldInfo]) -> str:
    """What is wrong with a table or a list in the environment that is not JSON, from the message of the library."""
    found = re.search(r'field "(\w+)"', message)
    if found is None:
        return f"{message}: in the environment a table is written as JSON"
    variable = given_variable(setting_named(found[1], fields), fields) or found[1]
    return f"{variable}: its value is not JSON; in the environment a table is written as JSON"
