"""Command line: one module or package per group of commands, and the root command that joins them."""

import re
import sys
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from aliquot.cli.acceptance.command import once
from aliquot.cli.accounts import key, user
from aliquot.cli.agent import agent
from aliquot.cli.alerts import notices
from aliquot.cli.audit import audit
from aliquot.cli.cluster import policy as policy_document
from aliquot.cli.cluster.agents import agents
from aliquot.cli.cluster.gpus import gpus
from aliquot.cli.cluster.queue import pools, project, projects, queue, usage
from aliquot.cli.cluster.quota import quota
from aliquot.cli.connection.clusters import clusters
from aliquot.cli.db import db
from aliquot.cli.doctor import doctor, health
from aliquot.cli.lease import lease
from aliquot.cli.node import node
from aliquot.cli.policy_test import policy
from aliquot.cli.replay import replay
from aliquot.cli.secret import secret
from aliquot.cli.selftest.command import selftest
from aliquot.cli.serve import serve
from aliquot.cli.session.command import session
from aliquot.cli.simulate import simulate
from aliquot.cli.state_export import state

_UsageProblem: Final = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
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


class Commands(TyperGroup):
    """The root command. In `--help` the value of an option is named by its meaning, not by its Python type."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        _name_values(self)

    def main(self, *args: Any, standalone_mode: bool = True, **more: Any) -> Any:
        """Run the command line. Errors are one line, without a box, in the words of the shell."""
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **more)
        try:
            code = super().main(*args, standalone_mode=False, **more)
        except typer.Abort:
            print("aliquot: aborted", file=sys.stderr)
            sys.exit(1)
        except _UsageProblem as error:
            if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help
                print(error.format_message())
            else:
                print(f"aliquot: {plain_words(error.format_message())}", file=sys.stderr)
                print(f"         `{_command_path(error)} --help` shows the options", file=sys.stderr)
            sys.exit(error.exit_code)
        sys.exit(code if isinstance(code, int) else 0)


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
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Share the GPUs of a cluster among people."""


main.add_typer(session, name="session")
main.command("queue")(queue)
main.command("lease")(lease)
main.command("gpus")(gpus)
main.add_typer(agents, name="agents")
main.command("pools")(pools)
main.command("projects")(projects)
main.add_typer(project, name="project")
main.command("usage")(usage)
main.add_typer(quota, name="quota")
main.add_typer(notices, name="notices")
main.add_typer(clusters, name="clusters")
policy.command("show")(policy_document.show)
policy.command("set")(policy_document.change)
main.add_typer(agent, name="agent", help="Run an agent on a node, check a node, and manage agent keys.")
main.command("once")(once)
main.add_typer(node, name="node", help="Join this host to a Ray cluster.")
main.add_typer(policy, name="policy")
main.command("selftest")(selftest)
main.command("serve")(serve)
main.command("simulate")(simulate)
main.add_typer(audit, name="audit")
main.command("replay")(replay)
main.add_typer(db, name="db")
main.command("doctor")(doctor)
main.command("health")(health)
main.add_typer(state, name="state")
main.add_typer(user, name="user")
main.add_typer(key, name="key")
main.add_typer(secret, name="secret")
