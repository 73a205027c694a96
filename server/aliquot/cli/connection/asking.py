"""Asking the server that is meant. What goes wrong is told in words, with what to do, and an exit code."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from aliquot.cli.connection.exit_codes import INTERRUPTED, REFUSED, UNREACHABLE, USAGE

if TYPE_CHECKING:
    from aliquot.client import BlockingClient


@contextmanager
def connected(*, cluster: str | None, server: str | None, token_file: Path | None) -> "Iterator[BlockingClient]":
    """A client of that server.

    Raises:
        typer.Exit: the server refused, or could not be asked; it was told.
    """
    from aliquot.cli.connection.advice import after_failure, after_refusal
    from aliquot.client import BlockingClient, ClientFailure, GraphQLFault, NoPlace, Refused, find_place
    from aliquot_schema.errors import AliquotError, NotFound, Unauthenticated

    try:
        with BlockingClient.at(find_place(cluster=cluster, server=server, token_file=token_file)) as client:
            yield client
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except Refused as error:
        fail(str(error.answer.get("message", error)), advice=after_refusal(error.kind, error.answer), code=REFUSED)
    except NotFound as error:
        fail(error.message, advice=after_refusal("NotFound", {"kind": error.kind}), code=REFUSED)
    except Unauthenticated as error:
        fail(str(error), advice=after_failure(error), code=UNREACHABLE)
    except (GraphQLFault, AliquotError) as error:
        fail(str(error), code=REFUSED)
    except NoPlace as error:
        usage(str(error))
    except ClientFailure as error:
        fail(str(error), advice=after_failure(error), code=UNREACHABLE)


def usage(message: str) -> NoReturn:
    """Say what is wrong with the command line, or with a file that it names, and end."""
    fail(message, code=USAGE)


def fail(message: str, *, advice: str | None = None, code: int) -> NoReturn:
    """Say what went wrong and what to do, and end."""
    print(f"aliquot: {message}", file=sys.stderr)
    if advice:
        print(f"         {advice}", file=sys.stderr)
    raise typer.Exit(code) from None
