"""Settings reference: name, flag, environment variable, default and meaning of every setting."""

import inspect
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import AliasChoices
from pydantic.fields import FieldInfo

from aliquot.cli import all_commands
from aliquot.settings import DEPRECATED, Settings, kebab
from aliquot_docs.markdown import code, table, text

HEADS: Final = ("in `aliquot.toml`", "flag of `aliquot serve`", "environment variable", "default", "meaning")
TABLES: Final = frozenset({"resource", "agents", "devices", "receivers", "notice_rules"})
"""Tables of `aliquot.toml`, which have no environment variable."""
NEGATED: Final = {"no_local_agents": "local_agents", "stopped": "orchestration_enabled"}
"""Flags that negate a setting."""
SUBJECT: Final = "Settings of "
KEPT: Final = "keep_"
"""Prefix of the settings that `--keep` sets."""


def settings_tables() -> str:
    """A table per class of settings, the server's own first, headed by the subject of the class."""
    flags = serve_flags()
    parts = []
    for kind in Settings.__mro__:
        own = [name for name in Settings.model_fields if name in vars(kind).get("__annotations__", {})]
        if own and kind.__module__.startswith("aliquot."):
            rows = (_row(name, Settings.model_fields[name], flags.get(name, "")) for name in own)
            parts.append(f"## {text(_heading(kind))}\n\n{table(HEADS, rows)}")
    return "\n".join(parts)


def serve_flags() -> Mapping[str, str]:
    """The flags of `aliquot serve`, by setting."""
    command: Any = all_commands()
    found = {}
    for option in command.commands["serve"].params:
        for setting in (option.name, f"{option.name}s", NEGATED.get(option.name, "")):
            if setting in Settings.model_fields:
                found[setting] = str(option.opts[0])
    kept = {name: name.removeprefix(KEPT) for name in Settings.model_fields if name.startswith(KEPT)}
    return found | {name: f"--keep {kind}=PERIOD" for name, kind in kept.items()}


def _row(name: str, info: FieldInfo, flag: str) -> Iterator[str]:
    assert info.description, f"the setting {name} has no description"
    yield code(kebab(name))
    yield code(flag)
    yield "" if name in TABLES else " ".join(map(code, _variables(name, info)))
    yield code(_default(info))
    choices = _choices(info.annotation)
    yield text(info.description) + (f" One of {', '.join(map(code, choices))}." if choices else "")


def _choices(kind: Any) -> list[str]:
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return [one.value for one in kind]
    return [choice for choice in get_args(kind) if isinstance(choice, str)]


def _heading(kind: type) -> str:
    if kind is Settings:
        return "The server and its agents"
    own = inspect.getdoc(kind) or ""
    noun = own.partition(",")[0] if own.startswith(SUBJECT) else (inspect.getdoc(inspect.getmodule(kind)) or "")
    noun = noun.partition("\n\n")[0].partition(":")[0].rstrip(".").removeprefix(SUBJECT)
    return noun[:1].upper() + noun[1:]


def _variables(name: str, info: FieldInfo) -> list[str]:
    if isinstance(info.validation_alias, AliasChoices):
        old = {f"ALIQUOT_{one.old.replace('-', '_').upper()}" for one in DEPRECATED}
        return [str(choice) for choice in info.validation_alias.choices if str(choice).isupper() and choice not in old]
    return [f"ALIQUOT_{name.upper()}"]


def _default(info: FieldInfo) -> str:
    if info.default_factory is not None:
        return "~/.local/share/aliquot" if info.annotation is Path else ""
    default = info.default
    if isinstance(default, bool):
        return str(default).lower()
    return "" if default in (None, ()) or not isinstance(default, str | int | float) else f"{default}"
