"""Sealing: the file first, then its manifest, then the seal in the database; only then rows may go."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, func, insert, select

from aliquot.service.ports import NotLeader
from aliquot.store.archive.folder import ArchiveFile, ArchiveFolder
from aliquot.store.archive.manifest import Manifest, sha256_of
from aliquot.store.seals import SEALS
from aliquot.store.tables import COUNTER


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What is sealed at once, as one file."""

    id: str
    kind: str
    first: int
    last: int
    rows: int
    head: bytes | None = None
    """The hash of the last link."""


def finished(file: ArchiveFile, stretch: Stretch, *, folder: ArchiveFolder, at_us: int) -> Manifest:
    """Give a file its name, and its manifest."""
    path = file.finish()
    manifest = Manifest(
        id=stretch.id,
        kind=stretch.kind,
        file=path.name,
        first=stretch.first,
        last=stretch.last,
        rows=stretch.rows,
        at_us=at_us,
        sha256=sha256_of(path),
        head=None if stretch.head is None else stretch.head.hex(),
    )
    folder.describe(manifest)
    return manifest


def put_seals(
    connection: Connection, stretches: Mapping[Stretch, Manifest | None], *, epoch: int | None, at_us: int
) -> None:
    """Write seals in one transaction; those without a manifest have no file.

    Raises:
        NotLeader: the epoch is over.
    """
    rows = [
        {
            "id": stretch.id,
            "kind": stretch.kind,
            "first": stretch.first,
            "last": stretch.last,
            "rows": stretch.rows,
            "at_us": at_us,
            "file": None if manifest is None else manifest.file,
            "sha256": None if manifest is None else manifest.sha256,
            "head": stretch.head,
        }
        for stretch, manifest in stretches.items()
    ]
    with connection.begin():
        check_epoch(connection, epoch)
        connection.execute(insert(SEALS), rows)


def check_epoch(connection: Connection, epoch: int | None) -> None:
    """See that nobody leads by a later epoch, until the transaction ends; None = whoever leads, it may be done.

    Raises:
        NotLeader: somebody does.
    """
    present = connection.execute(select(COUNTER.c.epoch).with_for_update(read=True)).scalar_one()
    if epoch is not None and present != epoch:
        raise NotLeader(f"what is to be archived is of epoch {epoch}, the present one is {present}")


def next_id(connection: Connection, kind: str) -> str:
    """The name of the next archive of a kind; names sort by age."""
    count = connection.execute(select(func.count()).select_from(SEALS).where(SEALS.c.kind == kind)).scalar_one()
    return f"{kind}-{count + 1:06d}"
