"""A server that runs, for commands that ask it."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

if TYPE_CHECKING:
    from aliquot.client import Client

T = TypeVar("T")

ServerUrl = Annotated[
    str | None, typer.Option("--server", help="Where the server is.  [default: as `aliquot clusters` says, or here]")
]
TokenFile = Annotated[
    Path | None, typer.Option(help="The file with its token; without one, the file in the data folder.")
]
LOCAL: Final = None
"""None is named: what the environment or the file of clusters says, else this machine's."""


def ask(work: Callable[["Client"], Awaitable[T]], *, server: str | None, token_file: Path | None) -> T:
    """Run something on a client. What goes wrong is told in words; the exit code is 2 then."""

    async def run() -> T:
        async with Client.at(find_place(server=server, token_file=token_file)) as client:
            return await work(client)

    from aliquot.client import Client, find_place
    from aliquot.client.failures import ClientFailure
    from aliquot_schema.errors import AliquotError

    try:
        return asyncio.run(run())
    except (ClientFailure, AliquotError, OSError, UnicodeDecodeError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
