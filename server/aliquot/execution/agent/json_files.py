"""JSON files: atomic and durable writes, and checked reads."""

import os
from pathlib import Path
from typing import Any, Final

import orjson

FORMAT: Final = 1
_SIZE_MAX: Final = 32 << 20


def write_file(path: Path, fields: object, *, mode: int = 0o600) -> None:
    """Write a new file and flush it; the caller flushes the folder."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        os.fchmod(file, mode)  # independent of the umask
        text = memoryview(orjson.dumps(fields))
        while text:
            text = text[os.write(file, text) :]
        os.fsync(file)
    finally:
        os.close(file)


def replace_file(path: Path, fields: object) -> None:
    """Replace a file atomically and durably."""
    draft = _draft(path)
    try:
        write_file(draft, fields)
        draft.rename(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    flush_folder(path.parent)


def claim_file(path: Path, fields: object) -> bool:
    """Create a file atomically and durably; False if it exists already."""
    draft = _draft(path)
    try:
        write_file(draft, fields)
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    flush_folder(path.parent)
    return True


def read_file(path: Path) -> dict[str, Any] | None:
    """Read an object; None if the file does not exist.

    Raises:
        ValueError: the file is not a JSON object of this format.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with os.fdopen(file, "rb") as stream:
        fields = orjson.loads(stream.read(_SIZE_MAX))
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise ValueError(f"{path} does not have format {FORMAT}")
    return fields


def flush_folder(path: Path) -> None:
    """Flush the folder's entries to disk."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.urandom(8).hex()}")
