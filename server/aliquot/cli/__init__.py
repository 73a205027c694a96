"""Command line: one module or package per group of commands, and the root command that joins them.

A command's module is imported when the command is called, since imports take most of the time of a short command.
"""

import errno
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, Final, NoReturn, cast

import typer
from typer.main import get_command
from typing_extensions import override

from aliquot.cli.groups import LazyGroup, read_plainly
from aliquot_schema.deprecation import report_deprecated

# httpx imports its own command line, which nothing here uses, with pygments and rich; without it, it works as well.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]

COMMANDS: Final = {
    "session": "session.command:session",
    "shell": "session.shell:shell",
    "jupyter": "session.app:jupyter",
    "ssh-config": "session.ssh:ssh_config",
    "ssh-proxy": "session.ssh:ssh_proxy",
    "run": "run.command:run",
    "template": "run.templates:template",
    "why": "session.why:why",
    "what-if": "cluster.what_if:what_if",
    "open": "open:open_dashboard",
    "queue": "cluster.queue:queue",
    "when": "session.when:when",
    "reserve": "cluster.bookings:reserve",
    "reservations": "cluster.bookings:reservations",
    "lease": "lease:lease",
    "gpus": "cluster.gpus:gpus",
    "agents": "cluster.agents:agents",
    "pools": "cluster.queue:pools",
    "projects": "cluster.queue:projects",
    "project": "cluster.queue:project",
    "usage": "cluster.queue:usage",
    "statement": "cluster.statement:statement",
    "shares": "cluster.statement:shares",
    "quota": "cluster.quota:quota",
    "notices": "alerts:notices",
    "mcp": "mcp:mcp",
    "clusters": "connection.clusters:clusters",
    "agent": "agent:agent",
    "once": "acceptance.command:once",
    "node": "node:node",
    "policy": "policy_test:policy",
    "scheduling": "cluster.scheduling:scheduling",
    "selftest": "selftest.command:selftest",
    "serve": "serve:serve",
    "simulate": "simulate:simulate",
    "audit": "audit:audit",
    "backtest": "cluster.backtest:backtest",
    "tune": "cluster.tune:tune",
    "replay": "replay:replay",
    "report": "cluster.observed_report:report",
    "db": "db:db",
    "doctor": "doctor:doctor",
    "health": "doctor:health",
    "state": "state_export:state",
    "user": "accounts:user",
    "key": "accounts:key",
    "secret": "secret:secret",
}
"""Module and attribute of each command or group of commands, in the order of `--help`."""

UsageProblem: Final = cast(
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

_UNWRITABLE: Final = frozenset({errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.EPIPE})
"""Reasons why output cannot be written."""


class Commands(LazyGroup):
    """The root command."""

    members = COMMANDS

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options of the root command."""
        read_plainly(self)
        return super().parse_args(ctx, args)

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
        run = partial(super().main, args, prog_name, complete_var, False, windows_expand_args, **extra)
        if standalone_mode:
            with _written_output():
                _run_plainly(run)
        return run()


def _run_plainly(run: Callable[[], Any]) -> NoReturn:
    try:
        code = run()
    except typer.Abort:
        print("aliquot: aborted", file=sys.stderr)
        sys.exit(1)
    except UsageProblem as raised:
        error: Any = raised
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help
            print(error.format_message())
        else:
            print(f"aliquot: {plain_words(error.format_message())}", file=sys.stderr)
            print(f"         `{_command_path(error)} --help` shows the options", file=sys.stderr)
        sys.exit(error.exit_code)
    sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def _written_output() -> Iterator[None]:
    """End the program with one line where standard output cannot be written; drop the output where it is missing."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # it is used until the program ends
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in _UNWRITABLE or error.filename is not None:
            raise
        # What is left in the buffer is written at the end of the program, and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if error.errno != errno.EPIPE:
            print(f"aliquot: output cannot be written: {error.strerror}", file=sys.stderr)
        sys.exit(1)


def plain_words(message: str) -> str:
    """A problem with the command line in plain words: `--cluster-size: give 1 or more`."""
    for pattern, words in _PLAIN.items():
        message = re.sub(pattern, words, message)
    return message


def _command_path(error: Any) -> str:
    context = getattr(error, "ctx", None)
    return "aliquot" if context is None else str(context.command_path)


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
    root.import_all()
    return root
