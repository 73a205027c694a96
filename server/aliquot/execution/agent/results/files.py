"""Results: lists and reads the files below a session's RESULT_DIR.

A job may change the folder at any time, and may try to have others' files read. Everything is opened with the
permissions of the account that owns the folder, relative to a descriptor of its parent, and never through a link. All
functions block on disk I/O.
"""

import hashlib
import os
import stat
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from aliquot.execution.agent.job_user import acting_as
from aliquot.execution.settings import DiskRules
from aliquot_schema.cluster.results import DEPTH_MAX, LISTED_MAX, ResultFile, ResultListing, path_fault
from aliquot_schema.errors import NotFound

FOLDER: Final = "result"
"""RESULT_DIR within a session's folder."""
ENTRIES_MAX: Final = 50_000
"""Entries that one listing looks at."""
HASHED_BYTES_MAX: Final = 512 * 2**20
"""Bytes that one listing reads to hash files; the hashes are kept, so that the next listing has more of them."""
KNOWN_MAX: Final = 50_000
"""Hashes kept in memory."""
BLOCK_BYTES: Final = 2**20
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class ResultFiles:
    """The results of one agent's sessions."""

    def __init__(self, sessions: Path, *, rules: DiskRules) -> None:
        """
        Args:
            sessions: folder of the sessions' folders.
        """
        self._sessions = sessions
        self._bytes_max = rules.results_bytes_max
        self._files_max = min(LISTED_MAX, rules.results_files_max)
        self._known: OrderedDict[tuple[int, int], tuple[int, int, int, str]] = OrderedDict()
        """Device and inode -> size, times of change (content, inode; nanoseconds), SHA-256."""

    def listing(self, session_id: str, *, hashed_bytes_max: int | None = HASHED_BYTES_MAX) -> ResultListing:
        """All regular files of a session, by path.

        Args:
            hashed_bytes_max: bytes that are read for hashes; None = as many as there are.
        Raises:
            NotFound: this agent has no results of the session.
        """
        with _opened(self._sessions, session_id) as root:
            walk = _Walk()
            found = sorted(walk.files(root), key=lambda entry: entry.path)
            listed = found[:LISTED_MAX]
            left = hashed_bytes_max
            files = []
            for entry in listed:
                file = ResultFile(path=entry.path, size=entry.found.st_size, changed_ns=max(0, entry.found.st_mtime_ns))
                known = self._recall(entry.found)
                if known is None and (left is None or entry.found.st_size <= left):
                    left = None if left is None else left - entry.found.st_size
                    file, known = self._hash(root, file)
                files.append(replace(file, sha256=known))
        return ResultListing(
            files=tuple(files),
            left_out=walk.left_out + len(found) - len(listed),
            bytes_max=self._bytes_max,
            files_max=self._files_max,
        )

    def within_quota(self, listing: ResultListing) -> tuple[ResultFile, ...]:
        """The files, by path, that fit into the quota."""
        kept: list[ResultFile] = []
        left = self._bytes_max
        for file in listing.files:
            if len(kept) < self._files_max and (left is None or file.size <= left):
                left = None if left is None else left - file.size
                kept.append(file)
        return tuple(kept)

    def hashed(self, session_id: str, files: Iterable[ResultFile]) -> tuple[ResultFile, ...]:
        """The files with their hashes; without one if a file changes meanwhile."""
        with _opened(self._sessions, session_id) as root:
            return tuple(replace(now, sha256=known) for now, known in (self._hash(root, file) for file in files))

    def open(self, session_id: str, path: str) -> int:
        """A descriptor of a regular file.

        Raises:
            NotFound: there is no such file, or it is a link, a device or a folder.
        """
        with _opened(self._sessions, session_id) as root:
            try:
                return _open_below(root, path)
            except OSError:
                raise NotFound(f"{session_id} has no result {path[:200]!r}", kind="file", id=path[:200]) from None

    def _recall(self, found: os.stat_result) -> str | None:
        known = self._known.get((found.st_dev, found.st_ino))
        is_same = known is not None and known[:3] == (found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        return known[3] if is_same and known is not None else None

    def _hash(self, root: int, file: ResultFile) -> tuple[ResultFile, str | None]:
        """The file as it is now, and its SHA-256; None if it changed while it was read."""
        try:
            descriptor = _open_below(root, file.path)
        except OSError:
            return file, None
        try:
            before = os.fstat(descriptor)
            digest = hashlib.sha256()
            left = before.st_size
            while left and (block := os.read(descriptor, min(left, BLOCK_BYTES))):
                digest.update(block)
                left -= len(block)
            after = os.fstat(descriptor)
        except OSError:
            return file, None
        finally:
            os.close(descriptor)
        now = replace(file, size=after.st_size, changed_ns=max(0, after.st_mtime_ns))
        if _marks(before) != _marks(after) or left:
            return now, None
        found = digest.hexdigest()
        self._known[after.st_dev, after.st_ino] = (*_marks(after), found)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return now, found


class _Entry(Struct, frozen=True):
    path: str
    found: os.stat_result


class _Walk:
    """One walk over a RESULT_DIR."""

    def __init__(self) -> None:
        self.left_out = 0
        self._seen = 0

    def files(self, folder: int, prefix: str = "", depth: int = 1) -> Iterator[_Entry]:
        """The regular files below a folder, given by its descriptor."""
        try:
            entries = os.scandir(folder)
        except OSError:
            self.left_out += 1
            return
        with entries:
            for entry in entries:
                self._seen += 1
                if self._seen > ENTRIES_MAX:
                    self.left_out += 1
                    return
                yield from self._of(folder, entry, prefix, depth)

    def _of(self, folder: int, entry: "os.DirEntry[str]", prefix: str, depth: int) -> Iterator[_Entry]:
        path = prefix + entry.name
        try:
            found = entry.stat(follow_symlinks=False)
            if path_fault(path) is not None or not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
                self.left_out += 1
            elif stat.S_ISREG(found.st_mode):
                yield _Entry(path, found)
            elif depth < DEPTH_MAX:
                below = os.open(entry.name, _FOLDER_FLAGS, dir_fd=folder)
                try:
                    yield from self.files(below, f"{path}/", depth + 1)
                finally:
                    os.close(below)
            else:
                self.left_out += 1
        except OSError:
            self.left_out += 1


def _open_below(root: int, path: str) -> int:
    """A regular file below a folder, opened part by part. Raises OSError."""
    *folders, name = path.split("/")
    folder = os.dup(root)
    try:
        for part in folders:
            below = os.open(part, _FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = below
        file = os.open(name, _FILE_FLAGS, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError("not a regular file")
    return file


@contextmanager
def _opened(sessions: Path, session_id: str) -> Iterator[int]:
    """A session's RESULT_DIR, with the permissions of the account that owns it."""
    parent, root = None, None
    try:
        # The account may have no access to the folders above.
        parent = os.open(sessions / session_id, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        owner = os.stat(FOLDER, dir_fd=parent, follow_symlinks=False)
        with acting_as(owner.st_uid, owner.st_gid):
            root = os.open(FOLDER, _FOLDER_FLAGS, dir_fd=parent)
            yield root
    except OSError as error:
        raise NotFound(
            f"this agent has no results of {session_id}: {error.strerror}", kind="results", id=session_id
        ) from None
    finally:
        for descriptor in (parent, root):
            if descriptor is not None:
                with suppress(OSError):
                    os.close(descriptor)


def _marks(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns
