"""The archive of a server, for commands that look into it or add to it."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aliquot.cli.unix_account import noted

if TYPE_CHECKING:
    from sqlalchemy import Row

    from aliquot.service.retention.retaining import Removed
    from aliquot.settings import Settings
    from aliquot.store.archive.verification import ArchivesVerified
    from aliquot.store.store import Database
    from aliquot.store.verification import Verified

ArchiveFolderOption = Annotated[
    Path | None, typer.Option("--archive-folder", help="Where its archives are, if not in the data folder.")
]


def archive_path(*, data_folder: Path | None, archive_folder: Path | None) -> Path:
    """Where archives are, by flags and settings."""
    return settings_of(data_folder=data_folder, archive_folder=archive_folder).archive_path


def settings_of(*, data_folder: Path | None, archive_folder: Path | None) -> "Settings":
    """The settings, as far as they are about archives."""
    from aliquot.settings import read_settings

    return read_settings(data_folder=data_folder, archive_folder=archive_folder)


async def archive_now(opened: "Database", settings: "Settings") -> "Removed":
    """Archive and remove what is older than the settings keep."""
    from aliquot.clock import SystemClock
    from aliquot.service.retention.retaining import Retaining
    from aliquot.service.state import State
    from aliquot.store.archive.folder import ArchiveFolder
    from aliquot.store.archive.history import DatabaseHistory
    from aliquot.store.audit.following import follow_all

    kept = {name: "for ever" if us is None else us for name, us in asdict(settings.periods).items()}
    await noted(opened, "history_archived", {f"keep_{name}": value for name, value in kept.items()})
    await opened.write(follow_all)
    clock = SystemClock()
    folder = ArchiveFolder(settings.archive_path) if settings.archive else None
    history = DatabaseHistory(opened, folder=folder, epoch=None, now_us=clock.now_us)
    return await Retaining(history, memory=State(), clock=clock, periods=settings.periods).run_once()


async def seals_of(opened: "Database") -> list["Row[Any]"]:
    """What was sealed."""
    from aliquot.store.archive.verification import all_seals

    return await opened.read(all_seals)


def verified_archives(seals: list["Row[Any]"], *, folder: Path) -> "ArchivesVerified":
    """Hold them against their seals."""
    from aliquot.store.archive.verification import verify_archives

    return verify_archives(seals, folder=folder)


def whole(found: "Verified") -> str:
    """What was found to be whole, in one line."""
    return f"whole: {found.events} events, {found.passes} passes of the ledger, {found.holdings} holdings"


def words_of(found: "ArchivesVerified") -> str:
    """What was found, in one line; empty when there are no archives."""
    told = [f"{found.files} archives with {found.rows} rows"] if found.files else []
    if found.links:
        told.append(f"{found.links} of them links of a chain")
    if found.gone:
        told.append(f"{found.gone} rows removed without an archive")
    return ", ".join(told)
