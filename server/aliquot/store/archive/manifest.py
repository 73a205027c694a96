"""Manifests: what a file of the archive holds, said beside it and in the table of seals."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from sqlalchemy import Row

from aliquot.service.ports import StoreUnavailable

FORMAT: Final = 1
_READ_BYTES: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One file; also the JSON beside it, `<id>.json`."""

    format: int = FORMAT
    id: str
    kind: str
    file: str
    first: int
    last: int
    rows: int
    at_us: int
    sha256: str
    """Of the file."""
    head: str | None
    """The hash of the last link of the chain, as hex; None where there is no chain."""

    @classmethod
    def of_seal(cls, seal: Row[Any]) -> "Manifest":
        """What the manifest of a seal has to say."""
        head = None if seal.head is None else seal.head.hex()
        return cls(
            id=seal.id,
            kind=seal.kind,
            file=seal.file,
            first=seal.first,
            last=seal.last,
            rows=seal.rows,
            at_us=seal.at_us,
            sha256=seal.sha256,
            head=head,
        )


def manifest_path(file: Path) -> Path:
    """Where the manifest of a file is."""
    return file.with_suffix(".json")


def read_manifest(path: Path) -> Manifest:
    """Read one.

    Raises:
        StoreUnavailable: it is none.
        OSError: it cannot be read.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except msgspec.DecodeError as error:
        raise StoreUnavailable(f"{path} is no manifest of an archive: {error}") from None


def sha256_of(path: Path) -> str:
    """Of a file's content, as hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_READ_BYTES):
            digest.update(piece)
    return digest.hexdigest()
