"""The database of a server that does not run, for commands that look into it or change it as a whole."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from aliquot.store.store import Database

T = TypeVar("T")

Folder = Annotated[Path | None, typer.Option(help="The server's data folder.")]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(help="The database, if it is not the one in the data folder: sqlite:///FILE or PostgreSQL."),
]


def with_database(
    work: Callable[["Database"], Awaitable[T]],
    *,
    data_folder: Path | None,
    database: str | None,
    upgrades: bool = False,
) -> T:
    """Open the database, run something on it, and close it. What goes wrong is told in words; the exit code is 2 then.

    A PostgreSQL database may be in use meanwhile; a SQLite file may not.
    """

    async def run() -> T:
        from aliquot.clock import SystemClock
        from aliquot.settings import read_settings
        from aliquot.store.opening import choose_database

        settings = read_settings(data_folder=data_folder, database=database)
        opened = choose_database(
            settings.database or "", data_folder=settings.data_folder, now_us=SystemClock().now_us, upgrades=upgrades
        )
        try:
            await _open(opened)
            return await work(opened)
        finally:
            await opened.close()

    with telling():
        return asyncio.run(run())
    raise AssertionError("telling() raises or lets pass")


async def _open(opened: "Database") -> None:
    from aliquot.store.faults import unavailability

    try:
        await opened.open()
    except Exception as error:
        known = unavailability(error)
        if known is None or known is error:
            raise
        raise known from error


@contextmanager
def telling() -> Iterator[None]:
    """Tell expected failures in words, with the exit code 2."""
    from aliquot.errors import ServerError
    from aliquot.store.faults import unavailability
    from aliquot_schema.errors import AliquotError

    try:
        yield
    except (ServerError, AliquotError, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    except Exception as error:
        if (known := unavailability(error)) is None:
            raise
        print(known, file=sys.stderr)
        raise typer.Exit(2) from None
