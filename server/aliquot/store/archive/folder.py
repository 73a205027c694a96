"""Archive folder: Parquet files and their JSON manifests.

Files appear complete or not at all, are readable by their owner only, and are durable once they have their name. The
table of seals repeats each manifest.
"""

import hashlib
import os
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from sqlalchemy import Boolean, Column, LargeBinary, Row, Text

from aliquot.service.ports import StoreUnavailable

FORMAT: Final = 1
_READ_BYTES: Final = 2**20


class Manifest(Struct, frozen=True, kw_only=True):
    """Description of one file, stored beside it as JSON."""

    format: int = FORMAT
    id: str
    kind: str
    file: str
    first: int
    last: int
    rows: int
    at_us: int
    sha256: str
    """SHA-256 of the file, as hex."""
    head: str | None
    """Hash of the last link, as hex; None for kinds without a chain."""

    @classmethod
    def of_seal(cls, seal: Row[Any]) -> "Manifest":
        """The manifest that belongs to a seal."""
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
    """Path of a file's manifest."""
    return file.with_suffix(".json")


def read_manifest(path: Path) -> Manifest:
    """Read a manifest.

    Raises:
        StoreUnavailable: the file is not a manifest.
        OSError: the file cannot be read.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except msgspec.DecodeError as error:
        raise StoreUnavailable(f"{path} is not a manifest of an archive: {error}") from None


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, as hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_READ_BYTES):
            digest.update(piece)
    return digest.hexdigest()


SUFFIX: Final = ".parquet"
INSTALL: Final = "archives need pyarrow (pip install pyarrow)"
_READ_ROWS: Final = 2000
_GROUP_ROWS: Final = 4000
"""Rows per row group."""

Rows = Sequence[Sequence[Any]]


class ArchiveFolder:
    """A folder of archive files. Its methods block on the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, name: str) -> Path:
        """Path of a file."""
        return self.path / name

    def begin(self, archive_id: str, columns: Sequence[Column[Any]]) -> "ArchiveFile":
        """Begin a file. Its name has a random part, because a former leader may still be writing the same archive.

        Raises:
            StoreUnavailable: pyarrow is not installed.
            OSError: the folder cannot be written.
        """
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        return ArchiveFile(self.file(f"{archive_id}-{secrets.token_hex(4)}{SUFFIX}"), columns)

    def describe(self, manifest: Manifest) -> None:
        """Write a file's manifest."""
        path = manifest_path(self.file(manifest.file))
        partial = _private_partial(path)
        try:
            partial.write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
            _publish(partial, path)
        finally:
            partial.unlink(missing_ok=True)

    def remove(self, manifest: Manifest) -> None:
        """Remove a file and its manifest."""
        path = self.file(manifest.file)
        manifest_path(path).unlink(missing_ok=True)
        path.unlink(missing_ok=True)


class ArchiveFile:
    """A file being written: `put` rows, then `finish`. `discard` after `finish` is harmless.

    A lock makes `discard`, called after a cancellation, wait for a thread that is still writing.
    """

    def __init__(self, path: Path, columns: Sequence[Column[Any]]) -> None:
        self._pyarrow, parquet = _arrow()
        self._schema = self._pyarrow.schema([(column.name, _type_of(column, self._pyarrow)) for column in columns])
        self._path = path
        self._partial = _private_partial(path)
        self._writer = parquet.ParquetWriter(self._partial, self._schema, compression="zstd")
        self._rows: list[Sequence[Any]] = []
        self._lock = threading.Lock()

    def put(self, rows: Rows) -> None:
        """Append rows, values in the order of the columns."""
        with self._lock:
            self._rows.extend(rows)
            if len(self._rows) >= _GROUP_ROWS:
                self._write()

    def finish(self) -> Path:
        """Complete the file and give it its name."""
        with self._lock:
            self._write()
            self._writer.close()
            _publish(self._partial, self._path)
            return self._path

    def discard(self) -> None:
        """Remove an unfinished file."""
        with self._lock:
            with suppress(OSError):
                self._writer.close()
            self._partial.unlink(missing_ok=True)

    def _write(self) -> None:
        if not self._rows:
            return
        columns = zip(zip(*self._rows, strict=True), self._schema, strict=True)
        arrays = [self._pyarrow.array(values, type=field.type) for values, field in columns]
        self._writer.write_batch(self._pyarrow.record_batch(arrays, schema=self._schema))
        self._rows = []


def rows_of(path: Path) -> Iterator[list[dict[str, Any]]]:
    """The rows of a file, in batches.

    Raises:
        StoreUnavailable: pyarrow is not installed, or the file is not a Parquet file.
    """
    with reading(path) as parquet, parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=_READ_ROWS):
            yield batch.to_pylist()


def found_in(path: Path, *, equal: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows of a file with these values. Row groups without them are skipped.

    Raises:
        StoreUnavailable: pyarrow is not installed, or the file is not a Parquet file.
    """
    wanted = [(name, "==", value) for name, value in equal.items()]
    with reading(path) as parquet:
        found: list[dict[str, Any]] = parquet.read_table(path, filters=wanted, use_threads=False).to_pylist()
    return found


@contextmanager
def reading(path: Path) -> Iterator[Any]:
    """Yield `pyarrow.parquet` and translate its errors.

    Raises:
        StoreUnavailable: pyarrow is not installed, or the file is not a Parquet file.
    """
    pyarrow, parquet = _arrow()
    try:
        yield parquet
    except (pyarrow.ArrowException, OSError) as error:
        raise StoreUnavailable(f"{path} cannot be read: {error}") from error


def has_parquet() -> bool:
    """Whether pyarrow is installed."""
    return find_spec("pyarrow") is not None  # not imported: that costs 50 MiB


def _private_partial(path: Path) -> Path:
    """An empty file `<name>.partial`, readable by its owner only."""
    partial = path.with_name(f"{path.name}.partial")
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
    return partial


def _publish(partial: Path, path: Path) -> None:
    _flush(partial)
    partial.rename(path)
    try:
        _flush(path.parent)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _type_of(column: Column[Any], pyarrow: Any) -> Any:
    if isinstance(column.type, LargeBinary):
        return pyarrow.binary()
    if isinstance(column.type, Boolean):
        return pyarrow.bool_()
    return pyarrow.string() if isinstance(column.type, Text) else pyarrow.int64()


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow  # type: ignore[import-untyped] # it ships no types
        from pyarrow import parquet
    except ImportError:
        raise StoreUnavailable(INSTALL) from None
    return pyarrow, parquet
