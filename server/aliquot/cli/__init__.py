"""Command line: one module or package per group of commands, and the root command that joins them.

A command's module is imported when the command is called, since imports take most of the time of a short command.
"""

import sys
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.main import get_command, get_group
from typing_extensions import override

from aliquot.cli.suggestions import SuggestingGroup
from aliquot_schema.deprecation import report_deprecated

# httpx imports its own command line, which nothing here uses, with pygments and rich; without it, it works as well.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]

COMMANDS: Final = {
    "session": "session.command:session",
    "open": "open:open_dashboard",
    "queue": "cluster.queue:queue",
    "gpus": "cluster.gpus:gpus",
    "agents": "cluster.agents:agents",
    "pools": "cluster.queue:pools",
    "projects": "cluster.queue:projects",
    "usage": "cluster.queue:usage",
    "quota": "cluster.quota:quota",
    "notices": "alerts:notices",
    "clusters": "connection.clusters:clusters",
    "agent": "agent:agent",
    "once": "acceptance.command:once",
    "node": "node:node",
    "policy": "policy_test:policy",
    "selftest": "selftest.command:selftest",
    "serve": "serve:serve",
    "simulate": "simulate:simulate",
    "audit": "audit:audit",
    "replay": "replay:replay",
    "db": "db:db",
    "doctor": "doctor:doctor",
    "health": "doctor:health",
    "state": "state_export:state",
    "user": "accounts:user",
    "key": "accounts:key",
    "secret": "secret:secret",
}
"""Module and attribute of each command or group of commands, in the order of `--help`."""


class Commands(SuggestingGroup):
    """The root command. In `--help` the value of an option is named by its meaning, not by its Python type."""

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        """All names, in the order of `--help`."""
        return list(COMMANDS)

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command, or return None when there is none of this name."""
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            self.commands[cmd_name] = command = _imported(cmd_name)
            _name_values(command)
        return self.commands.get(cmd_name)

    @override
    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of all commands."""
        self._import_all()
        _name_values(self)
        super().format_help(ctx, formatter)

    def _import_all(self) -> None:
        for name in COMMANDS:
            self.get_command(None, name)


def _imported(name: str) -> Any:
    """A command of `COMMANDS`, as click runs it."""
    module, _, attribute = COMMANDS[name].partition(":")
    found = getattr(import_module(f"aliquot.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        found.info.cls = SuggestingGroup
        command: Any = get_group(found)
    else:
        alone = typer.Typer(add_completion=False)
        alone.command(name)(found)
        command = get_command(alone)
    command.name = name
    return command


def _name_values(command: Any) -> None:
    context = typer.Context(command)
    for parameter in command.get_params(context):
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: ""  # noqa: ARG005 # its name is its meaning
        elif parameter.metavar is None:
            parameter.metavar = _value_name(parameter, context)
    for subcommand in getattr(command, "commands", {}).values():
        _name_values(subcommand)


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


main = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_show_locals=False)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        print(f"aliquot {version('aliquot')}")
        raise typer.Exit


@main.callback()
def describe(
    version: Annotated[  # noqa: ARG001  # its callback prints it
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Share the GPUs of a cluster among people."""
    report_deprecated(lambda text: print(f"warning: {text}", file=sys.stderr))


def all_commands() -> Any:
    """The root command with every other one imported, for the reference."""
    root: Any = get_command(main)
    for name in COMMANDS:
        root.get_command(None, name)
    _name_values(root)
    return root
