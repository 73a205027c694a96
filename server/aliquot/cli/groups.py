"""Groups of commands whose members are imported when called, since imports take most of a short command's time.

Also the names of values in `--help`, and the conversion of values that need no check.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group
from typing_extensions import override

from aliquot.cli.suggestions import SuggestingGroup

_DIGITS: Final = re.compile(r"[0-9]{1,15}", re.ASCII)


class LazyGroup(SuggestingGroup):
    """A group that imports a member when it is called, and all of them for `--help`."""

    members: ClassVar[Mapping[str, str]] = {}
    """Module and attribute of each member, in the order of `--help`."""

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        """All names, in the order of `--help`."""
        return list(self.members)

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command, or return None when there is none of this name."""
        if cmd_name in self.members and cmd_name not in self.commands:
            self.commands[cmd_name] = command = _imported(cmd_name, self.members[cmd_name])
            name_values(command)
            read_plainly(command)
        return self.commands.get(cmd_name)

    @override
    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of all commands."""
        self.import_all()
        super().format_help(ctx, formatter)

    def import_all(self) -> None:
        """Import all members, and theirs."""
        for name in self.members:
            command = self.get_command(None, name)
            if isinstance(command, LazyGroup):
                command.import_all()
        name_values(self)


def _imported(name: str, place: str) -> Any:
    """A command, as click runs it, from `package.module:attribute`."""
    module, _, attribute = place.partition(":")
    found = getattr(import_module(f"aliquot.cli.{module}"), attribute)
    if isinstance(found, TyperCommand | TyperGroup):
        command: Any = found
    elif isinstance(found, typer.Typer):
        if not isinstance(found.info.cls, type):
            found.info.cls = SuggestingGroup
        command = get_group(found)
    else:
        command = command_of(found, name)
    command.name = name
    return command


def command_of(function: Callable[..., Any], name: str, **options: Any) -> Any:
    """A command of its own, as click runs it.

    Args:
        options: as for `typer.Typer.command`.
    """
    alone = typer.Typer(add_completion=False)
    alone.command(name, **options)(function)
    return get_command(alone)


def name_values(command: Any) -> None:
    """Have `--help` name the value of an option by its meaning, not by its Python type."""
    context = typer.Context(command)
    for parameter in command.get_params(context):
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: ""  # noqa: ARG005 # its name is its meaning
        elif parameter.metavar is None:
            parameter.metavar = _value_name(parameter, context)
    for subcommand in getattr(command, "commands", {}).values():
        name_values(subcommand)


def read_plainly(command: Any) -> None:
    """Have values that need no check read without pydantic, which takes longer to import than most commands to run."""
    for parameter in command.get_params(typer.Context(command)):
        if hasattr(parameter, "get_runtime_param"):
            parameter.get_runtime_param = partial(_PlainValue, parameter.get_runtime_param, parameter.type_descriptor)
    for subcommand in getattr(command, "commands", {}).values():
        read_plainly(subcommand)


class _PlainValue:
    """Conversion of one parameter's value: of absent values, text, lists of it, whole numbers and unchecked paths here,
    of all others, and of wrong ones, by typer."""

    def __init__(self, checked: Callable[[], Any], descriptor: Any) -> None:
        self._checked = checked
        self._descriptor = descriptor

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The converted value."""
        kind, info = self._descriptor.annotation, self._descriptor.parameter_info
        is_single = isinstance(value, str) and info.parser is None
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if kind in (int, float, bool) and type(value) is kind:  # a default or a flag; what is typed is text
            return value
        if is_single and (kind is str or (get_origin(kind) is Literal and value in get_args(kind))):
            return value
        if is_single and kind is int and _DIGITS.fullmatch(value) and _is_within(int(value), info):
            return int(value)
        if kind == list[str] and info.parser is None and isinstance(value, list | tuple):
            return list(value)
        if is_single and kind is Path and not (info.exists or info.resolve_path):
            return Path(value)
        return self._checked().coerce(value, param=param, ctx=ctx)


def _is_within(number: int, info: Any) -> bool:
    return (info.min is None or number >= info.min) and (info.max is None or number <= info.max)


def _value_name(option: Any, context: typer.Context) -> str:
    """Empty for a flag, the choices of a choice, else FILE, FOLDER, N or the last word of the option's name."""
    kind: str = option.display_type(context).strip("<>").removeprefix("list[").removesuffix("]")
    if option.is_flag:
        return ""
    if "|" in kind:
        return str(kind)
    name: str = option.name.rpartition("_")[2].upper()
    if kind.startswith("int"):
        return "N"
    return "FILE" if kind in {"path", "Path"} and name != "FOLDER" else name
