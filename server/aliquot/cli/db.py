"""`aliquot db`: the database as a whole. The server must not run; a PostgreSQL database may be checked meanwhile."""

import os
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from aliquot.cli.archives import (
    ArchiveFolderOption,
    archive_now,
    archive_path,
    seals_of,
    settings_of,
    verified_archives,
    whole,
)
from aliquot.cli.connection.asking import connected
from aliquot.cli.connection.options import AsJson, AtServer, InCluster, TokenFile
from aliquot.cli.connection.printing import print_result
from aliquot.cli.stopped_server import DatabaseUrl, Folder, telling, with_database
from aliquot.cli.unix_account import noted, own_hand

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from aliquot.store.checking import Checked
    from aliquot.store.store import Database

db: Final = typer.Typer(no_args_is_help=True, help="Upgrade, check, copy and move the database.")

File = Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="Where the copy, or the export, is.")]


@db.command("upgrade")
def upgrade(data_folder: Folder = None, database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Bring the schema to this version; a SQLite file is copied before. A server does so, too, when it starts."""
    from aliquot.store.migration import HEAD

    with_database(_upgraded, data_folder=data_folder, database=database, upgrades=True)
    print_result({"version_num": HEAD}, words=f"the database has schema {HEAD}", as_json=as_json)


@db.command("check")
def check(
    data_folder: Folder = None,
    database: DatabaseUrl = None,
    archive_folder: ArchiveFolderOption = None,
    as_json: AsJson = False,
) -> None:
    """See whether the file is whole, the chains and archives are, and each row is what the log says.

    The exit code is 1 if not.
    """
    checked, seals = with_database(_checked, data_folder=data_folder, database=database)
    found = checked.faults
    if not found:
        with telling():
            folder = archive_path(data_folder=data_folder, archive_folder=archive_folder)
            found = list(verified_archives(seals, folder=folder).faults)
    print_result({"faults": found, "holdings": checked.holdings}, words="\n".join(found) or "whole", as_json=as_json)
    if found:
        raise typer.Exit(1)
    if not as_json:
        print(f"{checked.holdings} holdings are what the log says", file=sys.stderr)


@db.command("archive")
def archive(
    data_folder: Folder = None,
    database: DatabaseUrl = None,
    archive_folder: ArchiveFolderOption = None,
    as_json: AsJson = False,
) -> None:
    """Write what is older than the settings keep to Parquet files, and remove it; a running server does so by itself.

    How long things are kept is said by keep-sessions, keep-events, keep-ledger and keep-findings.
    """
    from aliquot.service.retention.retaining import NOTHING

    with telling():
        settings = settings_of(data_folder=data_folder, archive_folder=archive_folder)
        removed = with_database(
            lambda opened: archive_now(opened, settings), data_folder=data_folder, database=database
        )
    closed = f"{removed.closed} findings, alerts, notices and leases"
    words = f"removed {removed.passes} passes, {removed.events} events, {removed.sessions} sessions, {closed}"
    path = str(settings.archive_path) if settings.archive and removed != NOTHING else None
    words += f"\narchived in {path}" if path else ""
    print_result({"removed": asdict(removed), "path": path}, words=words, as_json=as_json)


@db.command("backup")
def backup(file: File, data_folder: Folder = None, database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Copy a SQLite database to a new file, which a server can be started on."""
    with telling():
        _check_new(file)
        with_database(partial(_backed_up, path=file.absolute()), data_folder=data_folder, database=database)
    size_bytes = os.stat(file).st_size
    words = f"{file}: {size_bytes} bytes; `--database sqlite:///{file.absolute()}` starts a server on it"
    print_result({"path": str(file), "size_bytes": size_bytes}, words=words, as_json=as_json)


@db.command("copy")
def copy(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """Have a running server copy its SQLite database to a file beside it, and print where that is.

    `aliquot replay`, `audit`, `db check` and `db export` look into it with --database sqlite:///FILE.
    """
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        made = client.copy_database()
    print_result(made, words=made.path, as_json=as_json)


@db.command("export")
def export_(file: File, data_folder: Folder = None, database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Write everything that the database holds into one file, from either kind of database and for either kind."""
    with telling():
        _check_new(file)
        rows = with_database(partial(_exported, path=file.absolute()), data_folder=data_folder, database=database)
    words = f"{file}: {rows} rows. It holds the environments of sessions: keep it as safe as the database."
    print_result({"path": str(file), "size_bytes": os.stat(file).st_size, "rows": rows}, words=words, as_json=as_json)


@db.command("import")
def import_(file: File, data_folder: Folder = None, database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Fill an empty database with what was exported: all of it, verified, or nothing."""
    from aliquot.store.chain import ChainBroken
    from aliquot.store.transfer.importing import import_archive

    try:
        found = with_database(
            lambda opened: opened.write(partial(import_archive, path=file, by=own_hand())),
            data_folder=data_folder,
            database=database,
            upgrades=True,
        )
    except ChainBroken as broken:
        print(f"nothing was imported, for it is not whole: {broken}", file=sys.stderr)
        raise typer.Exit(1) from None
    words = whole(found)
    print_result(found, words=words, as_json=as_json)


@db.command("rotate-secrets")
def rotate_secrets(data_folder: Folder = None, database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Encrypt all secrets with a new key, and forget the old ones. Stop all servers of the database first.

    What breaks off is finished by calling it again. With several servers, each needs the new file of keys.
    """
    from aliquot.settings import read_settings
    from aliquot.store.secrets.keys import SecretKeys
    from aliquot.store.secrets.rotation import rotate

    with telling():
        settings = read_settings(data_folder=data_folder, database=database)
        keys = SecretKeys(settings.secret_keys(settings.data_folder))
        work = partial(rotate, keys=keys, by=own_hand())
        count = with_database(work, data_folder=data_folder, database=database)
    words = f"{count} secrets are encrypted with a new key, in {keys.path}"
    print_result({"secrets": count, "path": str(keys.path)}, words=words, as_json=as_json)


@db.command("forget-secrets")
def forget_secrets(
    data_folder: Folder = None,
    database: DatabaseUrl = None,
    sure: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete the secrets that no key in the file of keys opens, because theirs is lost; the others stay."""
    from aliquot.settings import read_settings
    from aliquot.store.secrets.keys import SecretKeys
    from aliquot.store.secrets.rotation import forget

    with telling():
        settings = read_settings(data_folder=data_folder, database=database)
        keys = SecretKeys(settings.secret_keys(settings.data_folder))
        if not sure and as_json:
            raise ValueError("with --json nothing is asked: give --yes, too")
        if not sure:
            typer.confirm(f"Delete for ever what no key in {keys.path} opens?", abort=True)
        work = partial(forget, keys=keys, by=own_hand())
        count = with_database(work, data_folder=data_folder, database=database)
    words = f"deleted {count} secrets; their owners have to store them again"
    print_result({"secrets": count}, words=words, as_json=as_json)


async def _checked(opened: "Database") -> tuple["Checked", list["Row[Any]"]]:
    from aliquot.store.checking import checked

    return await opened.read(checked), await seals_of(opened)


async def _upgraded(opened: "Database") -> None:
    """Opening it has done so."""
    from aliquot.store.migration import HEAD

    await noted(opened, "database_upgraded", {"schema": HEAD})


async def _backed_up(opened: "Database", *, path: Path) -> None:
    await opened.read(_check_file)
    await noted(opened, "database_backed_up", {"path": path})
    await opened.write(partial(_back_up, path=path))


async def _exported(opened: "Database", *, path: Path) -> int:
    from aliquot.store.transfer.exporting import export

    await noted(opened, "database_exported", {"path": path})
    return await opened.read(partial(export, path=path))


def _check_new(file: Path) -> None:
    if file.exists():
        raise ValueError(f"{file} exists; name another file")


def _check_file(connection: "Connection") -> None:
    from aliquot.service.ports import StoreUnavailable

    if connection.dialect.name != "sqlite":
        raise StoreUnavailable("this is for SQLite; PostgreSQL has pg_dump, and there is `aliquot db export`")


def _back_up(connection: "Connection", *, path: Path) -> None:
    from aliquot.store.sqlite import back_up

    back_up(connection, path)
