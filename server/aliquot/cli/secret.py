"""`aliquot secret`: stores secrets that only your own sessions receive."""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from aliquot.cli.connection.output import cells, moment, print_json, print_result, show_table, table
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, usage

Name = Annotated[str, typer.Argument(metavar="NAME", help="The secret's name.")]
File = Annotated[
    Path | None,
    typer.Option("--file", exists=True, dir_okay=False, help="Read the value from this file, unchanged."),
]

secret: Final = typer.Typer(no_args_is_help=True, help="Store secrets that only your own sessions receive.")


@secret.command("set")
def set_(
    name: Name,
    file: File = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Store a secret, or replace it. The value is typed, or read from standard input or a file: never an argument.

    `aliquot session create --secret NAME -- ...` passes it to a session, as a variable of that name.
    """
    value = _value(file)
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        done = client.set_secret(name, value=value)
    print_result(done.secret, text=f"stored {done.secret.name}", as_json=as_json)


@secret.command("list")
def list_(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """List your secrets. Their values are never shown."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.secrets()
    if as_json:
        print_json(found)
        return
    rows = table("secret", "changed", "created")
    for one in found:
        rows.add_row(*cells(one.name, moment(one.changed_at), moment(one.created_at)))
    show_table(rows)


@secret.command("delete")
def delete(
    name: Name,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Delete a secret. Sessions that need it no longer start; running ones keep its value."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        done = client.delete_secret(name)
    print_result(done, text=f"deleted {done.name}", as_json=as_json)


def _value(file: Path | None) -> str:
    """The value, without the line end that an editor or `echo` adds to piped input."""
    try:
        if file is not None:
            return file.read_bytes().decode()
        if sys.stdin.isatty():
            return str(typer.prompt("Value", hide_input=True))
        return sys.stdin.buffer.read().decode().removesuffix("\n")
    except UnicodeDecodeError:
        usage("the value is not UTF-8 text; encode it first, for example with base64")
    except OSError as error:
        usage(f"{file} cannot be read: {error.strerror}")
