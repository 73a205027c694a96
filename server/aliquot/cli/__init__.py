"""The command line: one file, or package, per group of commands."""

import typer

from aliquot.cli.main_job.command import once
from aliquot.cli.serve import serve
from aliquot.cli.simulate import simulate

main = typer.Typer(no_args_is_help=True, pretty_exceptions_show_locals=False)


@main.callback()
def describe() -> None:
    """Share the GPUs of a cluster among people."""


main.command("once")(once)
main.command("serve")(serve)
main.command("simulate")(simulate)
