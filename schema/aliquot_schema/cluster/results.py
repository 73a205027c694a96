"""Results of a session: the files below `RESULT_DIR`, as an agent lists and sends them.

A stream with a `FilesRequest` carries JSON: a `ResultListing`, a `MetricReport`, or a `FilePiece` in one line with the
bytes after it.
"""

import re
from typing import Final

from msgspec import Struct

from aliquot_schema.metrics import MetricPattern, patterns_fault

PATH_CHARS_MAX: Final = 1024
DEPTH_MAX: Final = 32
"""Folders within each other, and the file."""
LISTED_MAX: Final = 10_000
"""Files of one listing, whatever the quota is."""
LISTING_BYTES_MAX: Final = 16 * 1024 * 1024
HEAD_BYTES_MAX: Final = 4096
_SIZE_MAX: Final = 2**62
_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


class FilesRequest(Struct, frozen=True, kw_only=True):
    """The listing of `RESULT_DIR`, a part of one file of it, or the metrics in the kernel's output."""

    metrics: tuple[MetricPattern, ...] | None = None
    """The metrics by these patterns and by lines `::metric`; None = files are asked for."""
    path: str | None = None
    """None = the listing."""
    offset: int = 0
    """Of the first byte; negative counts from the end."""
    length: int | None = None
    """Bytes at most; None = to the end."""


class ResultFile(Struct, frozen=True, kw_only=True):
    """A regular file of a listing."""

    path: str
    """Relative to RESULT_DIR, with `/` between its parts."""
    size: int
    changed_ns: int
    """Time of its last change, nanoseconds since the epoch."""
    sha256: str | None = None
    """Of the content. None = it was too much to read for this listing, or it changed meanwhile."""

    @property
    def tag(self) -> str:
        """Changes with the content, see `entity_tag`."""
        return entity_tag(self.size, self.changed_ns)


class ResultListing(Struct, frozen=True, kw_only=True):
    """What a session left in its RESULT_DIR on one agent."""

    files: tuple[ResultFile, ...] = ()
    """By path."""
    left_out: int = 0
    """Entries that are not listed: links, devices, pipes, unreadable ones, names that cannot be printed, and files
    above the limits of a listing."""
    bytes_max: int | None = None
    """Quota of the files' sizes together; None = none."""
    files_max: int = LISTED_MAX
    """Quota of the number of files."""

    @property
    def bytes_total(self) -> int:
        """Size of all listed files."""
        return sum(file.size for file in self.files)

    @property
    def is_over_quota(self) -> bool:
        """Whether it holds more than its quota; what is above it is not copied to the results folder."""
        is_large = self.bytes_max is not None and self.bytes_total > self.bytes_max
        return is_large or len(self.files) > self.files_max


class FilePiece(Struct, frozen=True, kw_only=True):
    """Head of a part of a file; exactly `length` bytes follow."""

    size: int
    """Of the whole file."""
    changed_ns: int
    offset: int
    length: int


def entity_tag(size: int, changed_ns: int) -> str:
    """Text that changes when a file does."""
    return f"{size:x}-{changed_ns:x}"


def path_fault(path: str) -> str | None:
    """Message about a path that cannot name a result; None = valid."""
    parts = path.split("/")
    if not path or len(path) > PATH_CHARS_MAX or len(parts) > DEPTH_MAX:
        return f"path: give 1 to {PATH_CHARS_MAX} characters, with at most {DEPTH_MAX} parts"
    if not path.isprintable():
        return "path: it has characters that cannot be printed"
    if any(part in ("", ".", "..") for part in parts):
        return "path: give it relative to RESULT_DIR, without empty parts, '.' and '..'"
    return None


def request_fault(request: FilesRequest) -> str | None:
    """Message about the first invalid value; None = valid."""
    if request.metrics is not None:
        return patterns_fault(request.metrics)
    if request.path is None:
        return None
    if not -_SIZE_MAX <= request.offset <= _SIZE_MAX:
        return f"offset: {request.offset} is too large"
    if request.length is not None and not 0 <= request.length <= _SIZE_MAX:
        return f"length: {request.length} is not 0 or more"
    return path_fault(request.path)


def listing_fault(listing: ResultListing) -> str | None:
    """Message about the first invalid value of an agent's listing; None = valid."""
    if len(listing.files) > LISTED_MAX:
        return f"it has {len(listing.files)} files; {LISTED_MAX} are allowed"
    if not 0 <= listing.left_out <= _SIZE_MAX or not 0 <= (listing.bytes_max or 0) <= _SIZE_MAX:
        return "a number is out of range"
    for file in listing.files:
        if path_fault(file.path) is not None:
            return f"{file.path[:80]!r} is not a path"
        if not 0 <= file.size <= _SIZE_MAX or not 0 <= file.changed_ns <= _SIZE_MAX:
            return f"size or time of {file.path[:80]!r} is out of range"
        if file.sha256 is not None and _SHA256.fullmatch(file.sha256) is None:
            return f"the SHA-256 of {file.path[:80]!r} is not valid"
    return None


def piece_fault(piece: FilePiece) -> str | None:
    """Message about the first invalid value of an agent's head; None = valid."""
    is_sized = 0 <= piece.size <= _SIZE_MAX and 0 <= piece.changed_ns <= _SIZE_MAX
    is_within = 0 <= piece.offset <= piece.size and 0 <= piece.length <= piece.size - piece.offset
    return None if is_sized and is_within else "a number is out of range"
