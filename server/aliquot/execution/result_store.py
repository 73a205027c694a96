"""Results store: copies of sessions' results that outlive their nodes, in a shared folder or in S3-compatible storage.

    <session>/<agent>.json        what the session left on one agent: a `ResultListing` with all hashes
    <session>/objects/<SHA-256>   a content, once per session

Agents write, servers read. Nothing is shared between sessions, so that a session's copies are deleted as a whole.
Whatever else is in the folder or below the prefix is left alone. All methods block on I/O.
"""

import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import msgspec

from aliquot.errors import ConfigurationError
from aliquot_schema.cluster.results import LISTING_BYTES_MAX, ResultListing, listing_fault
from aliquot_schema.ids import SESSION_PREFIX, AgentId, SessionId

BLOCK_BYTES: Final = 2**20
_S3: Final = "s3://"
_OWN: Final = re.compile(re.escape(SESSION_PREFIX) + r"[A-Za-z0-9_-]{1,116}", re.ASCII)
"""Names of sessions: nothing with another name is read, written or deleted."""
_MANIFEST: Final = ".json"
_OBJECTS: Final = "objects"
_AGENT: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", re.ASCII)


class ObjectStorage(Protocol):
    """A place for named contents. Names have parts with `/` between them. Every method raises OSError."""

    def write(self, name: str, source: BinaryIO, *, sha256: str | None = None) -> bool:
        """Store a content, complete or not at all; False if it has another SHA-256, so that nothing was stored."""

    def read(self, name: str, *, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """A part of a content. Raises FileNotFoundError."""

    def has(self, name: str, *, size: int) -> bool:
        """Whether a content of this size exists."""

    def delete(self, name: str) -> None:
        """Delete a content, or everything below a name; nothing happens if there is none."""

    def entries(self, name: str) -> dict[str, tuple[int, float]]:
        """Sizes and times of change, seconds, of the complete contents directly below a name."""

    def folders(self) -> list[str]:
        """Names directly below the place that have contents below them."""

    def check_there(self, name: str) -> None:
        """Check that contents were stored below a name before. A bucket does not remember that.

        Raises:
            OSError: the folder has no such name: it is not mounted, or another one.
        """

    def ages(self) -> dict[str, float]:
        """Names of sessions with copies, with the last change of a manifest, or else of an object, seconds."""


class FolderStorage:
    """Contents in a folder that all agents and servers see."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, source: BinaryIO, *, sha256: str | None = None) -> bool:
        """See `ObjectStorage`."""
        path = self._folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
        digest = hashlib.sha256()
        try:
            with open(draft, "xb", opener=_private) as target:
                while block := source.read(BLOCK_BYTES):
                    digest.update(block)
                    target.write(block)
                target.flush()
                os.fsync(target.fileno())
            is_right = sha256 in (None, digest.hexdigest())
            if is_right:
                draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        return is_right

    def read(self, name: str, *, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """See `ObjectStorage`."""
        with open(self._folder / name, "rb") as file:
            file.seek(offset)
            left = length
            while left is None or left:
                block = file.read(BLOCK_BYTES if left is None else min(left, BLOCK_BYTES))
                if not block:
                    return
                left = None if left is None else left - len(block)
                yield block

    def has(self, name: str, *, size: int) -> bool:
        """See `ObjectStorage`."""
        path = self._folder / name
        return path.is_file() and path.stat().st_size == size

    def delete(self, name: str) -> None:
        """See `ObjectStorage`."""
        path = self._folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def entries(self, name: str) -> dict[str, tuple[int, float]]:
        """See `ObjectStorage`."""
        found = {}
        with suppress(FileNotFoundError), os.scandir(self._folder / name) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # deleted meanwhile
                    if not entry.name.startswith(".") and entry.is_file(follow_symlinks=False):
                        changed = entry.stat(follow_symlinks=False)
                        found[entry.name] = changed.st_size, changed.st_mtime
        return found

    def folders(self) -> list[str]:
        """See `ObjectStorage`."""
        paths = self._folder.iterdir() if self._folder.is_dir() else ()
        return sorted(path.name for path in paths if path.is_dir() and not path.is_symlink())

    def check_there(self, name: str) -> None:
        """See `ObjectStorage`."""
        if not (self._folder / name).is_dir():
            raise OSError(f"{self._folder} has nothing that was stored there before; check that it is mounted")

    def ages(self) -> dict[str, float]:
        """See `ObjectStorage`."""
        found = {}
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            if _OWN.fullmatch(path.name) is None or path.is_symlink() or not path.is_dir():
                continue
            objects = path / _OBJECTS
            with suppress(FileNotFoundError):  # another agent deletes it, or a draft was completed
                made = list(path.glob(f"*{_MANIFEST}"))
                if not made and objects.is_dir():
                    made = [objects, *objects.iterdir()]
                if made:
                    found[path.name] = max(one.stat().st_mtime for one in made)
        return found


class S3Storage:
    """Contents in a bucket of S3-compatible storage, through s3fs.

    Credentials and the endpoint are those of every AWS program: `AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, profiles.
    """

    def __init__(self, url: str, *, setting: str = "results-folder") -> None:
        """
        Args:
            setting: names it in messages.
        Raises:
            ConfigurationError: s3fs is not installed.
        """
        try:
            from s3fs import S3FileSystem
        except ImportError:
            raise ConfigurationError(f"{setting}: {url} needs pip install 'aliquot[s3]'") from None
        self._place = url.removeprefix(_S3).strip("/")
        self._files: Any = S3FileSystem(use_listings_cache=False, skip_instance_cache=True)

    def write(self, name: str, source: BinaryIO, *, sha256: str | None = None) -> bool:
        """See `ObjectStorage`."""
        digest = hashlib.sha256()
        target = self._files.open(self._at(name), "wb", block_size=8 * BLOCK_BYTES, autocommit=False)
        try:
            with target:
                while block := source.read(BLOCK_BYTES):
                    digest.update(block)
                    target.write(block)
            is_right = sha256 in (None, digest.hexdigest())
            target.commit() if is_right else target.discard()
        except BaseException:
            target.discard()
            raise
        return is_right

    def read(self, name: str, *, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """See `ObjectStorage`."""
        end = None if length is None else offset + length
        while end is None or offset < end:
            stop = offset + BLOCK_BYTES if end is None else min(end, offset + BLOCK_BYTES)
            block = self._files.cat_file(self._at(name), start=offset, end=stop)
            if not block:
                return
            yield block
            if len(block) < stop - offset:
                return
            offset += len(block)

    def has(self, name: str, *, size: int) -> bool:
        """See `ObjectStorage`."""
        try:
            return bool(self._files.size(self._at(name)) == size)
        except FileNotFoundError:
            return False

    def delete(self, name: str) -> None:
        """See `ObjectStorage`."""
        if self._files.exists(self._at(name)):
            self._files.rm(self._at(name), recursive=True)

    def entries(self, name: str) -> dict[str, tuple[int, float]]:
        """See `ObjectStorage`."""
        files = [one for one in self._below(self._at(name)) if one["type"] == "file"]
        return {one["name"].rpartition("/")[2]: (one["size"], one["LastModified"].timestamp()) for one in files}

    def folders(self) -> list[str]:
        """See `ObjectStorage`."""
        return [one["name"].rpartition("/")[2] for one in self._below(self._place) if one["type"] == "directory"]

    def check_there(self, name: str) -> None:
        """See `ObjectStorage`."""

    def ages(self) -> dict[str, float]:
        """See `ObjectStorage`."""
        found: dict[str, float] = {}
        for place in self._below(self._place):
            name = place["name"].rpartition("/")[2]
            if _OWN.fullmatch(name) is None or place["type"] != "directory":
                continue
            entries = self._below(place["name"])
            made = [one for one in entries if one["type"] == "file" and one["name"].endswith(_MANIFEST)]
            made = made or [one for one in self._below(f"{place['name']}/{_OBJECTS}") if one["type"] == "file"]
            if made:
                found[name] = max(one["LastModified"].timestamp() for one in made)
        return found

    def _below(self, place: str) -> list[dict[str, Any]]:
        try:
            return list(self._files.ls(place, detail=True))
        except FileNotFoundError:
            return []

    def _at(self, name: str) -> str:
        return f"{self._place}/{name}"


class ResultStore:
    """The copies of all sessions."""

    def __init__(self, storage: ObjectStorage) -> None:
        self._storage = storage

    def listing(self, session_id: SessionId, agent_id: AgentId) -> ResultListing | None:
        """What a session left on an agent; None if there is no copy.

        Raises:
            OSError: the store cannot be read.
        """
        try:
            data = b"".join(self._storage.read(_manifest(session_id, agent_id), length=LISTING_BYTES_MAX))
        except FileNotFoundError:
            return None
        try:
            found = msgspec.json.decode(data, type=ResultListing)
        except msgspec.MsgspecError as error:
            raise OSError(f"the copied listing of {session_id} is not valid: {error}") from None
        fault = listing_fault(found)
        if fault is not None:
            raise OSError(f"the copied listing of {session_id} is not valid: {fault}")
        return found

    def read(self, session_id: SessionId, sha256: str, *, offset: int, length: int) -> Iterator[bytes]:
        """A part of a content. Raises OSError."""
        return self._storage.read(_object(session_id, sha256), offset=offset, length=length)

    def keep(self, session_id: SessionId, sha256: str, source: BinaryIO, *, size: int) -> bool:
        """Copy a content, unless it is there; False if it is not what its hash says, so that nothing was kept."""
        name = _object(session_id, sha256)
        return self._storage.has(name, size=size) or self._storage.write(name, source, sha256=sha256)

    def finish(self, session_id: SessionId, agent_id: AgentId, listing: ResultListing, *, draft: Path) -> None:
        """Store a listing whose contents are all copied.

        Args:
            draft: a file name for it, on this host.
        """
        draft.write_bytes(msgspec.json.encode(listing))
        try:
            with open(draft, "rb") as source:
                self._storage.write(_manifest(session_id, agent_id), source)
        finally:
            draft.unlink(missing_ok=True)

    def expire(self, kept_s: float) -> list[str]:
        """Delete sessions whose results were copied longer ago; returns their ids."""
        oldest = time.time() - kept_s
        old = [name for name, changed in self._storage.ages().items() if changed < oldest]
        for name in old:
            self._storage.delete(name)
        return old


def open_store(place: str | None) -> ResultStore | None:
    """The store at a folder or `s3://BUCKET/PREFIX`; None = there is none.

    Raises:
        ConfigurationError: the library for it is missing.
    """
    if place is None:
        return None
    return ResultStore(open_storage(place, setting="results-folder"))


def open_storage(place: str, *, setting: str) -> ObjectStorage:
    """The storage at a folder or `s3://BUCKET/PREFIX`.

    Raises:
        ConfigurationError: the library for it is missing.
    """
    return S3Storage(place, setting=setting) if place.startswith(_S3) else FolderStorage(Path(place))


def _manifest(session_id: SessionId, agent_id: AgentId) -> str:
    agent = agent_id if _AGENT.fullmatch(agent_id) else hashlib.sha256(agent_id.encode()).hexdigest()
    return f"{_checked(session_id)}/{agent}{_MANIFEST}"


def _object(session_id: SessionId, sha256: str) -> str:
    return f"{_checked(session_id)}/{_OBJECTS}/{sha256}"


def _checked(session_id: SessionId) -> str:
    if _OWN.fullmatch(session_id) is None:
        raise FileNotFoundError(f"{session_id[:80]!r} is not a session id")
    return session_id


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
