"""The files that seals tell of, and why one cannot be read."""

from pathlib import Path
from typing import Any

from sqlalchemy import Row

from aliquot.service.ports import StoreUnavailable
from aliquot.store.archive.folder import INSTALL, has_parquet


def sealed_file(seal: Row[Any], folder: Path, *, what: str, known_from: str) -> Path:
    """The file of a seal.

    Args:
        what: what it tells of, in words.
        known_from: since when that is known without it.
    Raises:
        StoreUnavailable: it is away, there is none, or nothing reads it here.
    """
    known = f"it is known from {known_from} on"
    if seal.file is None:
        raise StoreUnavailable(f"{what} was removed without an archive; {known}")
    if not has_parquet():
        raise StoreUnavailable(f"{what} is in archives; {known}: {INSTALL}")
    path: Path = folder / seal.file
    if not path.is_file():
        raise StoreUnavailable(f"{path} is away; bring it back, or name its folder; {known}")
    return path
