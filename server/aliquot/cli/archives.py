"""Archives of a server: their location, creation and verification, for the commands `db` and `audit`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import asdict

from aliquot.cli.agent_keys import record_event

if TYPE_CHECKING:
    from sqlalchemy import Row

    from aliquot.client.generated.audit import RecordCheck
    from aliquot.service.retention import RemovedRows
    from aliquot.settings import Settings
    from aliquot.store.archive.verification import ArchivesVerified
    from aliquot.store.integrity import VerifiedCounts
    from aliquot.store.store import Database


ArchiveFolderOption = Annotated[
    Path | None, typer.Option("--archive-folder", help="The folder of the archives, if not in the data folder.")
]


def archive_path(*, data_folder: Path | None, archive_folder: Path | None) -> Path:
    """The folder of the archives, by flags and settings."""
    return settings_of(data_folder=data_folder, archive_folder=archive_folder).archive_path


def settings_of(*, data_folder: Path | None, archive_folder: Path | None) -> "Settings":
    """The settings, with these two flags."""
    from aliquot.settings import read_settings

    return read_settings(data_folder=data_folder, archive_folder=archive_folder)


async def archive_now(opened: "Database", settings: "Settings") -> "RemovedRows":
    """Archive and remove records that are older than their retention period.

    Raises:
        StoreUnavailable: servers use the database. They would keep what was removed in memory.
    """
    from aliquot.clock import SystemClock
    from aliquot.service.retention import RetentionLoop
    from aliquot.service.state.state import State
    from aliquot.store.archive.archiver import DatabaseHistory
    from aliquot.store.archive.folder import ArchiveFolder
    from aliquot.store.audit.holdings import follow_all
    from aliquot.store.migration import check_unused

    await opened.read(check_unused)
    kept = {name: "for ever" if us is None else us for name, us in asdict(settings.periods).items()}
    await record_event(opened, "history_archived", {f"keep_{name}": value for name, value in kept.items()})
    await opened.write(follow_all)
    clock = SystemClock()
    folder = ArchiveFolder(settings.archive_path) if settings.archive else None
    history = DatabaseHistory(opened, folder=folder, epoch=None, now_us=clock.now_us)
    return await RetentionLoop(history, memory=State(), clock=clock, periods=settings.periods).run_once()


async def seals_of(opened: "Database") -> list["Row[Any]"]:
    """All seals of archives in the database."""
    from aliquot.store.archive.verification import all_seals

    return await opened.read(all_seals)


def verified_archives(seals: list["Row[Any]"], *, folder: Path) -> "ArchivesVerified":
    """Compare the archive files with their seals."""
    from aliquot.store.archive.verification import verify_archives

    return verify_archives(seals, folder=folder)


def integrity_text(found: "VerifiedCounts | RecordCheck") -> str:
    """The counts of a successful verification, in one line."""
    return f"intact: {found.events} events, {found.passes} passes of the ledger, {found.holdings} holdings"


def archives_text(*, files: int, rows: int, gone: int, links: int = 0) -> str:
    """The counts of verified archives, in one line; empty when there are none."""
    parts = [f"{files} archives with {rows} rows"] if files else []
    if links:
        parts.append(f"{links} of them links of a chain")
    if gone:
        parts.append(f"{gone} rows removed without an archive")
    return ", ".join(parts)
