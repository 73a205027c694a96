"""Command-line reference, from Typer's description of the commands."""

import re
from typing import Any, Final

import click
import typer
from typer.cli import get_docs_for_click

from aliquot.cli import all_commands

NAME: Final = "aliquot"
ARGUMENT_LINE: Final = re.compile(r"^(\* `[^`\n]+`(?:: .*)?)$", re.MULTILINE)


def commands_page() -> str:
    """All commands with their arguments and options."""
    command: Any = all_commands()
    context = typer.Context(command, info_name=NAME)
    written = get_docs_for_click(obj=command, ctx=context, name=NAME, title="Command line")
    return ARGUMENT_LINE.sub(lambda line: line[1].replace("[", "\\[").replace("<", "\\<"), written)


def command_paths() -> list[str]:
    """Every command, as typed in a shell."""
    return list(_paths(all_commands(), NAME))


def _paths(command: Any, prefix: str) -> list[str]:
    if not isinstance(command, click.Group) and not hasattr(command, "commands"):
        return [prefix]
    return [path for name, one in sorted(command.commands.items()) for path in _paths(one, f"{prefix} {name}")]
