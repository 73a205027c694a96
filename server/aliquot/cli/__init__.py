"""Command line: one module or package per group of commands, and the root command that joins them.

A command's module is imported when the command is called, since imports take most of the time of a short command.
"""

import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, Final, cast

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
    "lease": "lease:lease",
    "gpus": "cluster.gpus:gpus",
    "agents": "cluster.agents:agents",
    "pools": "cluster.queue:pools",
    "projects": "cluster.queue:projects",
    "project": "cluster.queue:project",
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

_UsageProblem: Final = cast(
    "type[Exception]", next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
)
"""Any problem with a command line; typer has no public name for it."""
_PLAIN: Final = {
    r"Invalid value for '([^']*)': ": r"\1: ",
    r"Input should be greater than or equal to (\S+)": r"give \1 or more",
    r"Input should be less than or equal to (\S+)": r"give \1 or less",
    r"Input should be greater than (\S+)": r"give more than \1",
    r"Input should be less than (\S+)": r"give less than \1",
    r"Input should be a valid integer.*": "give a whole number",
    r"Input should be a valid number.*": "give a number",
}
"""Messages of the libraries that read the command line, and what is printed instead."""


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

    @override
    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line. Errors are one line, without a box, in the words of the shell."""
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
            if not standalone_mode:
                return code
        except typer.Abort:
            if not standalone_mode:
                raise
            print("aliquot: aborted", file=sys.stderr)
            sys.exit(1)
        except _UsageProblem as raised:
            if not standalone_mode:
                raise
            error: Any = raised
            if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help
                print(error.format_message())
            else:
                print(f"aliquot: {plain_words(error.format_message())}", file=sys.stderr)
                print(f"         `{_command_path(error)} --help` shows the options", file=sys.stderr)
            sys.exit(error.exit_code)
        sys.exit(code if isinstance(code, int) else 0)

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


def plain_words(message: str) -> str:
    """A problem with the command line in plain words: `--cluster-size: give 1 or more`."""
    for pattern, words in _PLAIN.items():
        message = re.sub(pattern, words, message)
    return message


def _command_path(error: Any) -> str:
    context = getattr(error, "ctx", None)
    return "aliquot" if context is None else str(context.command_path)


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
