"""`aliquot secret`: what your sessions are told, and nobody else."""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from aliquot.cli.connection.asking import connected, usage
from aliquot.cli.connection.options import AsJson, AtServer, InCluster, TokenFile
from aliquot.cli.connection.printing import cells, console, moment, print_json, print_result, table

Name = Annotated[str, typer.Argument(metavar="NAME", help="The secret's name.")]
File = Annotated[
    Path | None,
    typer.Option("--file", exists=True, dir_okay=False, help="Take the value from this file, as it is."),
]

secret: Final = typer.Typer(no_args_is_help=True, help="Store what your sessions are told, and nobody else.")


@secret.command("set")
def set_(
    name: Name,
    file: File = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Store a secret, in place of an older one. It is typed, or read from the input or a file: never an argument.

    `aliquot session create --secret NAME -- ...` gives it to a session, as a variable of that name.
    """
    value = _value(file)
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        done = client.set_secret(name, value=value)
    print_result(done.secret, words=f"stored {done.secret.name}", as_json=as_json)


@secret.command("list")
def list_(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """List your secrets, without their values, which nobody is shown."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.secrets()
    if as_json:
        print_json(found)
        return
    rows = table("secret", "changed", "created")
    for one in found:
        rows.add_row(*cells(one.name, moment(one.changed_at), moment(one.created_at)))
    console().print(rows)


@secret.command("delete")
def delete(
    name: Name,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Delete a secret. Sessions that ask for it are not started any more; those that run keep what they have."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        done = client.delete_secret(name)
    print_result(done, words=f"deleted {done.name}", as_json=as_json)


def _value(file: Path | None) -> str:
    """Without the end of the line that an editor or `echo` adds to one line."""
    try:
        if file is not None:
            return file.read_text(encoding="utf-8")
        if sys.stdin.isatty():
            return str(typer.prompt("Value", hide_input=True))
        return sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError:
        usage("the value is no text in UTF-8; encode it, with base64 for one")
    except OSError as error:
        usage(f"{file} cannot be read: {error.strerror}")
