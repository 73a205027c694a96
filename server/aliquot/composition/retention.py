"""Retention: how long history is kept, and where it is archived."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from aliquot.service.retention.periods import Periods
from aliquot.service.retention.plan import RetentionPlan
from aliquot.settings import Settings
from aliquot.store.archive.folder import INSTALL, ArchiveFolder, has_parquet
from aliquot.store.archive.history import DatabaseHistory
from aliquot.store.store import DatabaseStore

log: Final = logging.getLogger("aliquot.retention")


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """What the settings say of it."""

    periods: Periods
    folder: Path
    """Where archives are."""
    archives: bool
    """Off, what is old is removed without an archive."""


def keeping_of(settings: Settings) -> Keeping:
    """What the settings say of it."""
    return Keeping(periods=settings.periods, folder=settings.archive_path, archives=settings.archive)


def retention_of(keeping: Keeping, store: DatabaseStore, *, now_us: Callable[[], int]) -> RetentionPlan:
    """The plan for a leader.

    Without pyarrow nothing can be archived: then only the ledger goes, which is no record of what happened, but of why.
    """
    periods, folder = keeping.periods, ArchiveFolder(keeping.folder) if keeping.archives else None
    if folder is not None and not has_parquet():
        log.warning("sessions and events are kept for ever: %s, or set archive = false to remove them without", INSTALL)
        periods, folder = replace(periods, sessions_us=None, events_us=None, findings_us=None), None
    return RetentionPlan(
        periods=periods,
        open_history=lambda epoch: DatabaseHistory(store, folder=folder, epoch=epoch, now_us=now_us),
    )
