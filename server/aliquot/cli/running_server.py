"""A server that runs, for commands that ask it."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from aliquot.client import Client

T = TypeVar("T")

ServerUrl = Annotated[str, typer.Option("--server", help="Where the server is.", show_default=True)]
TokenFile = Annotated[
    Path | None, typer.Option(help="The file with its token; without one, the file in the data folder.")
]
LOCAL = "http://127.0.0.1:8090"


def ask(work: Callable[["Client"], Awaitable[T]], *, server: str, token_file: Path | None) -> T:
    """Run something on a client. What goes wrong is told in words; the exit code is 2 then."""

    async def run() -> T:
        async with Client(server, _token(token_file)) as client:
            return await work(client)

    from aliquot.client import Client
    from aliquot.client.failures import ClientFailure
    from aliquot_schema.errors import AliquotError

    try:
        return asyncio.run(run())
    except (ClientFailure, AliquotError, OSError, UnicodeDecodeError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None


def _token(path: Path | None) -> str:
    from aliquot.settings import default_data_folder

    return (path or default_data_folder() / "token").read_text(encoding="ascii").strip()
