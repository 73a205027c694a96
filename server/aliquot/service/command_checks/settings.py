"""Settings of the command check."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode

from aliquot.service.command_checks.rules import PATIENCE_S, CommandRules
from aliquot.service.setting_errors import wrong


class CommandCheckSettings(BaseSettings):
    """A part of `aliquot.settings.Settings`."""

    command_allow: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Regular expressions; where there are any, one of them has to match in a command."
    )
    command_deny: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Regular expressions that must not match in a command."
    )
    command_check: Path | None = Field(
        None, description="A program that is asked about each new session: JSON on its input, exit code 0 takes it."
    )
    command_check_s: float = Field(
        PATIENCE_S, gt=0, le=60, description="Seconds that it may take, and that the patterns may."
    )

    @property
    def command_rules(self) -> CommandRules:
        """What the operator says of commands."""
        return CommandRules(
            allow=self.command_allow,
            deny=self.command_deny,
            program=self.command_check,
            patience_s=self.command_check_s,
        )

    @field_validator("command_allow", "command_deny", mode="before")
    @classmethod
    def _are_patterns(cls, value: object) -> object:
        """In the environment there is one in each line."""
        given = tuple(filter(None, value.splitlines())) if isinstance(value, str) else value
        for pattern in given if isinstance(given, list | tuple) else ():
            try:
                re.compile(str(pattern))
            except re.error as error:
                raise wrong(f"{pattern} is no regular expression: {error}") from None
        return given

    @field_validator("command_check")
    @classmethod
    def _is_absolute(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_absolute():
            raise wrong("give an absolute path")
        return value
