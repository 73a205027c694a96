"""The archive: JSON lines, compressed. A line that says what follows, one a row, and one that seals them.

{"aliquot-archive": 1, "revision": "0004", "tables": {"sessions": ["id", "version", ...], ...}}
{"sessions": ["ses_...", 3, ...]}
...
{"rows": 12345, "sha256": "..."}     of all lines before
"""

import gzip
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from aliquot.service.ports import StoreUnavailable

ARCHIVE_FORMAT: Final = 1
_LEVEL: Final = 3


class ArchiveWriter:
    """Writes lines and counts them."""

    def __init__(self, file: IO[bytes], *, revision: str, columns: dict[str, list[str]]) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.rows = 0
        self._put({"aliquot-archive": ARCHIVE_FORMAT, "revision": revision, "tables": columns})

    def row(self, table: str, values: list[Any]) -> None:
        """One row, in the order of the table's columns. Bytes are written as base64."""
        self._put({table: values})
        self.rows += 1

    def seal(self) -> None:
        """Nothing follows."""
        self._put({"rows": self.rows, "sha256": self._digest.hexdigest()})

    def _put(self, line: dict[str, Any]) -> None:
        data = msgspec.json.encode(line) + b"\n"
        self._digest.update(data)
        self._file.write(data)


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """A new file for its owner alone, there as a whole or not at all.

    Raises:
        FileExistsError: there is one.
    """
    if path.exists():
        raise FileExistsError(f"{path} exists; name another file")
    partial = path.with_name(f"{path.name}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as raw:
            with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=_LEVEL, mtime=0) as file:
                yield file  # type: ignore[misc]  # it is a binary file in all that matters
            raw.flush()
            os.fsync(raw.fileno())
        partial.rename(path)
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()


class ArchiveReader:
    """Reads the first line at once, the rows when they are asked for."""

    def __init__(self, file: IO[bytes], *, path: Path) -> None:
        """
        Raises:
            StoreUnavailable: it is no archive.
        """
        self._file = file
        self._path = path
        self._digest = hashlib.sha256()
        head = self._next()
        if head.get("aliquot-archive") != ARCHIVE_FORMAT:
            raise StoreUnavailable(f"{path} is no archive that this version of Aliquot can read")
        self.revision: str = head["revision"]
        self.columns: dict[str, list[str]] = head["tables"]

    def rows(self) -> Iterator[tuple[str, list[Any]]]:
        """(table, values) of every row.

        Raises:
            StoreUnavailable: the file is cut off, or was changed.
        """
        count = 0
        while True:
            before = self._digest.hexdigest()
            line = self._next()
            if "sha256" in line:
                if (line["rows"], line["sha256"]) != (count, before):
                    raise StoreUnavailable(f"{self._path} was changed after it was written")
                return
            ((table, values),) = line.items()
            yield table, values
            count += 1

    def _next(self) -> dict[str, Any]:
        try:
            data = self._file.readline()
            line: dict[str, Any] = msgspec.json.decode(data, type=dict)
        except (OSError, EOFError, msgspec.DecodeError) as error:
            raise StoreUnavailable(f"{self._path} is cut off, or no archive of Aliquot: {error}") from error
        self._digest.update(data)
        return line
