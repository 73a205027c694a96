"""Every setting, from the settings class: its name in the file, its flag, its variable, its default and its meaning."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args

import typer
from pydantic import AliasChoices
from pydantic.fields import FieldInfo

from aliquot.cli import main
from aliquot.settings import Settings, kebab
from aliquot_docs.markdown import code, table, text

TABLES: Final = frozenset({"resource", "agents", "devices"})
"""Tables of `aliquot.toml` that no variable holds."""
NEGATED: Final = {"no_local_agents": "local_agents", "stopped": "orchestration_enabled"}
"""Flags that say the contrary of a setting."""


def settings_table() -> str:
    """A row for each setting, in the order of the classes that bring them."""
    flags = serve_flags()
    return table(
        ("in `aliquot.toml`", "flag of `aliquot serve`", "in the environment", "default", "meaning"),
        (_row(name, info, flags.get(name, "")) for name, info in Settings.model_fields.items()),
    )


def serve_flags() -> Mapping[str, str]:
    """By setting, the flag of `aliquot serve` that gives it."""
    command: Any = typer.main.get_command(main)
    found = {}
    for option in command.commands["serve"].params:
        for setting in (option.name, f"{option.name}s", NEGATED.get(option.name, "")):
            if setting in Settings.model_fields:
                found[setting] = str(option.opts[0])
    return found


def _row(name: str, info: FieldInfo, flag: str) -> Iterator[str]:
    assert info.description, f"the setting {name} says nothing of itself"
    yield code(kebab(name))
    yield code(flag)
    yield "" if name in TABLES else " ".join(map(code, _variables(name, info)))
    yield code(_default(info))
    choices = [str(choice) for choice in get_args(info.annotation) if isinstance(choice, str)]
    yield text(info.description) + (f" One of {', '.join(map(code, choices))}." if choices else "")


def _variables(name: str, info: FieldInfo) -> list[str]:
    if isinstance(info.validation_alias, AliasChoices):
        return [str(choice) for choice in info.validation_alias.choices if str(choice).isupper()]
    return [f"ALIQUOT_{name.upper()}"]


def _default(info: FieldInfo) -> str:
    if info.default_factory is not None:
        return "~/.local/share/aliquot" if info.annotation is Path else ""
    default = info.default
    if isinstance(default, bool):
        return str(default).lower()
    return "" if default in (None, ()) or not isinstance(default, str | int | float) else f"{default}"
