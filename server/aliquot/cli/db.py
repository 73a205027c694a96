"""`aliquot db`: upgrades, checks, copies and moves the database, without a running server.

A PostgreSQL database may be in use by servers while it is checked or exported; a SQLite file may not.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer
from msgspec.structs import asdict

from aliquot.cli.agent_keys import command_actor, record_event
from aliquot.cli.archives import (
    ArchiveFolderOption,
    archive_now,
    archive_path,
    integrity_text,
    seals_of,
    settings_of,
    verified_archives,
)
from aliquot.cli.connection.output import count_text, print_result
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from aliquot.store.integrity import IntegrityResult, VerifiedCounts
    from aliquot.store.store import Database


T = TypeVar("T")

log: Final = logging.getLogger("aliquot.db")

Folder = Annotated[Path | None, typer.Option(help="The server's data folder.")]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="sqlite:///FILE or a PostgreSQL URL, if it is not the one in the data folder."),
]


def with_database(
    work: Callable[["Database"], Awaitable[T]],
    *,
    data_folder: Path | None,
    database: str | None,
    upgrades: bool = False,
) -> T:
    """Run a function on the open database.

    A PostgreSQL database may be in use by servers; a SQLite file may not.

    Raises:
        typer.Exit: code 2; the failure has been printed.
    """

    async def run() -> T:
        from aliquot.clock import SystemClock
        from aliquot.settings import read_settings
        from aliquot.store.open import choose_database

        settings = read_settings(data_folder=data_folder, database=database)
        opened = choose_database(
            settings.database or "", data_folder=settings.data_folder, now_us=SystemClock().now_us, upgrades=upgrades
        )
        try:
            await _open(opened)
            return await _understood(work, opened)
        finally:
            await opened.close()

    with reported_errors():
        return asyncio.run(run())
    raise AssertionError("reported_errors() swallowed an exception")


async def _understood(work: Callable[["Database"], Awaitable[T]], opened: "Database") -> T:
    """Run a function on an open database; what it cannot read is reported as damage."""
    from aliquot.errors import ServerError
    from aliquot.store.engines.database import damage, unavailability
    from aliquot.store.hash_chain import ChainBroken
    from aliquot_schema.errors import AliquotError

    try:
        return await work(opened)
    except (ServerError, AliquotError, ChainBroken, OSError, typer.Exit):
        raise
    except Exception as error:
        if type(error) is ValueError or unavailability(error) is not None:
            raise
        log.debug("the database could not be read", exc_info=error)
        raise damage(error) from error


async def _open(opened: "Database") -> None:
    from aliquot.store.engines.database import damage, unavailability

    try:
        await opened.open()
    except Exception as error:
        known = unavailability(error)
        if known is error:
            raise
        raise (known or damage(error)) from error


@contextmanager
def reported_errors() -> Iterator[None]:
    """Print expected failures without a traceback, and exit with code 2."""
    from aliquot.errors import ServerError
    from aliquot.store.engines.database import unavailability
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


db: Final = typer.Typer(no_args_is_help=True, help="Upgrade, check, copy and move the database.")

File = Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="The file of the copy or export.")]


@db.command("upgrade")
def upgrade(data_folder: Folder = None, database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Upgrade the schema to this version. A server does so at start, too. A SQLite file is copied first."""
    from aliquot.store.migration import HEAD

    with_database(_upgraded, data_folder=data_folder, database=database, upgrades=True)
    print_result({"version_num": HEAD}, text=f"the database has schema {HEAD}", as_json=as_json)


@db.command("check")
def check(
    data_folder: Folder = None,
    database: DatabaseUrl = None,
    archive_folder: ArchiveFolderOption = None,
    as_json: AsJson = False,
) -> None:
    """Check the integrity of the file, the hash chains and the archives, and compare the tables with the event log.

    The exit code is 1 when something does not match.
    """
    with reported_errors():
        folder = archive_path(data_folder=data_folder, archive_folder=archive_folder)
    work = partial(_checked, folder=folder)
    checked, statements = with_database(work, data_folder=data_folder, database=database)
    found = checked.faults or statements or []
    print_result({"faults": found, "holdings": checked.holdings}, text="\n".join(found) or "intact", as_json=as_json)
    if found:
        raise typer.Exit(1)
    if not as_json:
        print(f"{checked.holdings} holdings match the event log", file=sys.stderr)
        if statements is None:
            print("statements were not recounted: the log's beginning is not in the archives", file=sys.stderr)


@db.command("archive")
def archive(
    data_folder: Folder = None,
    database: DatabaseUrl = None,
    archive_folder: ArchiveFolderOption = None,
    as_json: AsJson = False,
) -> None:
    """Move records older than their retention period to Parquet files. A running server does so by itself.

    The periods are the settings keep-sessions, keep-events, keep-ledger and keep-findings. The newest 10,000 events are
    kept whatever their age, and a session is kept until its events are archived.
    """
    from aliquot.service.retention import NOTHING

    with reported_errors():
        settings = settings_of(data_folder=data_folder, archive_folder=archive_folder)
        removed = with_database(
            lambda opened: archive_now(opened, settings), data_folder=data_folder, database=database
        )
    closed = f"{removed.closed} findings, alerts, notices and leases"
    text = f"removed {removed.passes} passes, {removed.events} events, {removed.sessions} sessions, {closed}"
    path = str(settings.archive_path) if settings.archive and removed != NOTHING else None
    text += f"\narchived in {path}" if path else ""
    print_result({"removed": asdict(removed), "path": path}, text=text, as_json=as_json)


@db.command("backup")
def backup(file: File, data_folder: Folder = None, database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Copy a SQLite database to a new file that a server can start on."""
    with reported_errors():
        _check_new(file)
        with_database(partial(_backed_up, path=file.absolute()), data_folder=data_folder, database=database)
    size_bytes = os.stat(file).st_size
    text = f"{file}: {size_bytes} bytes; `--database sqlite:///{file.absolute()}` starts a server on it"
    print_result({"path": str(file), "size_bytes": size_bytes}, text=text, as_json=as_json)


@db.command("copy")
def copy(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """Let a running server copy its SQLite database to a file beside it, and print the file's path.

    `aliquot replay`, `audit`, `db check` and `db export` read it with --database sqlite:///FILE.
    """
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        made = client.copy_database()
    print_result(made, text=made.path, as_json=as_json)


@db.command("export")
def export_(file: File, data_folder: Folder = None, database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Export all of the database to a file that `aliquot db import` reads, into SQLite or PostgreSQL."""
    with reported_errors():
        _check_new(file)
        rows = with_database(partial(_exported, path=file.absolute()), data_folder=data_folder, database=database)
    text = f"{file}: {rows} rows. It holds the environments of sessions: protect it like the database."
    print_result({"path": str(file), "size_bytes": os.stat(file).st_size, "rows": rows}, text=text, as_json=as_json)


@db.command("import")
def import_(file: File, data_folder: Folder = None, database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Import an export into an empty database: all of it, verified, or nothing."""
    from aliquot.store.export import import_archive
    from aliquot.store.hash_chain import ChainBroken

    # A database elsewhere, without its server's folder: the default folder's mark belongs to another cluster.
    is_marked = database is None or data_folder is not None

    async def imported(opened: "Database") -> "VerifiedCounts":
        done = await opened.write(partial(import_archive, path=file, by=command_actor()))
        if is_marked:
            await _renew_mark(opened, data_folder=data_folder)
        return done

    try:
        found = with_database(
            imported,
            data_folder=data_folder,
            database=database,
            upgrades=True,
        )
    except ChainBroken as broken:
        print(f"nothing was imported: the export is not intact: {broken}", file=sys.stderr)
        raise typer.Exit(1) from None
    print_result(found, text=integrity_text(found), as_json=as_json)


@db.command("restore")
def restore(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            dir_okay=False,
            help="A backup of a SQLite database. Without it, the present database is accepted as it is.",
        ),
    ] = None,
    data_folder: Folder = None,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Replace the SQLite database by a backup, and accept it for servers of this data folder.

    The replaced file is kept beside it. After pg_restore, give no FILE: the PostgreSQL database is accepted as it is.
    """
    from aliquot.settings import read_settings
    from aliquot.store.open import sqlite_path

    kept: Path | None = None
    with reported_errors():
        settings = read_settings(data_folder=data_folder, database=database)
        if file is not None:
            path = sqlite_path(settings.database or "", data_folder=settings.data_folder)
            kept = _replace_file(file, path=path)
    number = with_database(
        partial(_restored, path="" if file is None else file.absolute(), data_folder=data_folder),
        data_folder=data_folder,
        database=database,
        upgrades=file is not None,
    )
    text = f"servers of {settings.data_folder} start on this database, which ends at event {number}"
    text += f"\nthe replaced database is kept as {kept}" if kept else ""
    print_result({"event": number, "kept": str(kept) if kept else None}, text=text, as_json=as_json)


@db.command("rotate-secrets")
def rotate_secrets(data_folder: Folder = None, database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Encrypt all secrets with a new key and delete the old keys. Stop all servers of the database first.

    An interrupted rotation is completed by running it again. With several servers, each needs the new key file.
    """
    from aliquot.settings import read_settings
    from aliquot.store.secrets.keys import SecretKeys
    from aliquot.store.secrets.secrets import rotate

    with reported_errors():
        settings = read_settings(data_folder=data_folder, database=database)
        keys = SecretKeys(settings.secret_keys(settings.data_folder))
        work = partial(rotate, keys=keys, by=command_actor())
        count = with_database(work, data_folder=data_folder, database=database)
    text = f"encrypted {count_text(count, 'secret')} with a new key, in {keys.path}"
    print_result({"secrets": count, "path": str(keys.path)}, text=text, as_json=as_json)


@db.command("forget-secrets")
def forget_secrets(
    data_folder: Folder = None,
    database: DatabaseUrl = None,
    sure: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete the secrets that cannot be decrypted because their key is lost; the others are kept."""
    from aliquot.settings import read_settings
    from aliquot.store.secrets.keys import SecretKeys
    from aliquot.store.secrets.secrets import forget

    with reported_errors():
        settings = read_settings(data_folder=data_folder, database=database)
        keys = SecretKeys(settings.secret_keys(settings.data_folder))
        if not sure and as_json:
            raise ValueError("--json cannot ask for a confirmation; add --yes")
        if not sure:
            typer.confirm(f"Permanently delete all secrets that no key in {keys.path} decrypts?", abort=True)
        work = partial(forget, keys=keys, by=command_actor())
        count = with_database(work, data_folder=data_folder, database=database)
    text = f"deleted {count_text(count, 'secret')}; owners have to store theirs again"
    print_result({"secrets": count}, text=text, as_json=as_json)


async def _checked(opened: "Database", *, folder: Path) -> tuple["IntegrityResult", list[str] | None]:
    """The faults of the database and the archives, and of the statements that are computed from both."""
    from aliquot.store.integrity import checked
    from aliquot.store.statement_check import statement_faults

    found = await opened.read(checked)
    if not found.faults:
        found.faults.extend(verified_archives(await seals_of(opened), folder=folder).faults)
    return found, [] if found.faults else await opened.read(partial(statement_faults, folder=folder))


async def _upgraded(opened: "Database") -> None:
    """Record the upgrade, which happened when the database was opened."""
    from aliquot.store.migration import HEAD

    await record_event(opened, "database_upgraded", {"schema": HEAD})


async def _backed_up(opened: "Database", *, path: Path) -> None:
    await opened.read(_check_file)
    await record_event(opened, "database_backed_up", {"path": path})
    await opened.write(partial(_back_up, path=path))


async def _exported(opened: "Database", *, path: Path) -> int:
    from aliquot.store.export import export

    await record_event(opened, "database_exported", {"path": path})
    return await opened.read(partial(export, path=path))


def _replace_file(file: Path, *, path: Path | None) -> Path | None:
    from aliquot.clock import SystemClock
    from aliquot.store.engines.sqlite import restore_copy

    if path is None:
        raise ValueError(
            "only a SQLite database is restored from a FILE; use pg_restore, then `aliquot db restore` without a FILE"
        )
    return restore_copy(file, path=path, now_us=SystemClock().now_us())


async def _restored(opened: "Database", *, path: Path | str, data_folder: Path | None) -> int:
    from aliquot.service.ports import StoreUnavailable
    from aliquot.store.cluster_mark import latest_mark

    if await opened.read(latest_mark) is None:
        raise StoreUnavailable("the database holds no events; restore a backup into it first")
    await record_event(opened, "database_restored", {"path": path})
    return await _renew_mark(opened, data_folder=data_folder)


async def _renew_mark(opened: "Database", *, data_folder: Path | None) -> int:
    """Mark the data folder as belonging to this database, and return the number of its last event."""
    from aliquot.settings import read_settings
    from aliquot.store.cluster_mark import MARK_FILE, MarkFile, latest_mark

    file = MarkFile(read_settings(data_folder=data_folder).data_folder / MARK_FILE)
    mark = await opened.read(latest_mark)
    if mark is None:
        file.remove()
        return 0
    file.write(mark)
    return mark.event


def _check_new(file: Path) -> None:
    if file.exists():
        raise ValueError(f"{file} exists; name another file")
    if not file.absolute().parent.is_dir():
        raise ValueError(f"there is no folder {file.absolute().parent}; make it, or name another file")


def _check_file(connection: "Connection") -> None:
    from aliquot.service.ports import StoreUnavailable

    if connection.dialect.name != "sqlite":
        raise StoreUnavailable("only SQLite is backed up this way; for PostgreSQL use pg_dump or `aliquot db export`")


def _back_up(connection: "Connection", *, path: Path) -> None:
    from aliquot.store.engines.sqlite import back_up

    back_up(connection, path)
