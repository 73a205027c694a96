"""The archive's folder: files appear in it as a whole, for their owner alone, and stay when the power goes."""

import os
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec
from sqlalchemy import Boolean, Column, LargeBinary, Text

from aliquot.service.ports import StoreUnavailable
from aliquot.store.archive.manifest import Manifest, manifest_path

SUFFIX: Final = ".parquet"
INSTALL: Final = "archives need pyarrow (pip install pyarrow)"
_READ_ROWS: Final = 2000
_GROUP_ROWS: Final = 4000
"""Written at once."""

Rows = Sequence[Sequence[Any]]


class ArchiveFolder:
    """Everything here blocks on the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, name: str) -> Path:
        """Where a file is."""
        return self.path / name

    def begin(self, archive_id: str, columns: Sequence[Column[Any]]) -> "ArchiveFile":
        """Begin a file of rows, by a name of its own: a leader of before may be writing the same archive.

        Raises:
            StoreUnavailable: pyarrow is missing.
            OSError: the folder cannot be written.
        """
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        return ArchiveFile(self.file(f"{archive_id}-{secrets.token_hex(4)}{SUFFIX}"), columns)

    def describe(self, manifest: Manifest) -> None:
        """Write a file's manifest."""
        path = manifest_path(self.file(manifest.file))
        partial = _fresh(path)
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
        _appear(partial, path)

    def remove(self, manifest: Manifest) -> None:
        """Remove a file and its manifest."""
        path = self.file(manifest.file)
        manifest_path(path).unlink(missing_ok=True)
        path.unlink(missing_ok=True)


class ArchiveFile:
    """A file that is being written: `put` rows, then `finish`; `discard` is harmless after that.

    Whoever waits for a thread that writes may be canceled and discard the file meanwhile: then that comes next.
    """

    def __init__(self, path: Path, columns: Sequence[Column[Any]]) -> None:
        self._pyarrow, parquet = _arrow()
        self._schema = self._pyarrow.schema([(column.name, _type_of(column, self._pyarrow)) for column in columns])
        self._path = path
        self._partial = _fresh(path)
        self._writer = parquet.ParquetWriter(self._partial, self._schema, compression="zstd")
        self._rows: list[Sequence[Any]] = []
        self._lock = threading.Lock()

    def put(self, rows: Rows) -> None:
        """Append rows, each in the order of the columns."""
        with self._lock:
            self._rows.extend(rows)
            if len(self._rows) >= _GROUP_ROWS:
                self._write()

    def finish(self) -> Path:
        """The file is whole: it gets its name."""
        with self._lock:
            self._write()
            self._writer.close()
            _appear(self._partial, self._path)
            return self._path

    def discard(self) -> None:
        """Leave nothing of what is not finished."""
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
    """The rows of a file, a few at a time.

    Raises:
        StoreUnavailable: pyarrow is missing, or it is no Parquet file.
    """
    with reading(path) as parquet, parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=_READ_ROWS):
            yield batch.to_pylist()


def found_in(path: Path, *, equal: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows of a file with these values; most of the file need not be read.

    Raises:
        StoreUnavailable: pyarrow is missing, or it is no Parquet file.
    """
    wanted = [(name, "==", value) for name, value in equal.items()]
    with reading(path) as parquet:
        found: list[dict[str, Any]] = parquet.read_table(path, filters=wanted, use_threads=False).to_pylist()
    return found


@contextmanager
def reading(path: Path) -> Iterator[Any]:
    """`pyarrow.parquet`, to read a file with.

    Raises:
        StoreUnavailable: pyarrow is missing, or it is no Parquet file.
    """
    pyarrow, parquet = _arrow()
    try:
        yield parquet
    except (pyarrow.ArrowException, OSError) as error:
        raise StoreUnavailable(f"{path} cannot be read: {error}") from error


def has_parquet() -> bool:
    """Whether Parquet can be written here."""
    return find_spec("pyarrow") is not None  # importing it costs 50 MiB, and most servers archive nothing for long


def _fresh(path: Path) -> Path:
    """An empty file beside a path, for its owner alone."""
    partial = path.with_name(f"{path.name}.partial")
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
    return partial


def _appear(partial: Path, path: Path) -> None:
    _flush(partial)
    partial.rename(path)
    _flush(path.parent)


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
