"""Records: small JSON files in a kernel's folder, written atomically and durably, and the lock of the kernel's shim.

The lock is an open-file-description lock: a shim holds it for its whole life; other processes only test it.
"""

import fcntl
import os
import struct

FORMAT = 1
_SET = 37
_GET = 36
"""`F_OFD_SETLK` and `F_OFD_GETLK` of <fcntl.h>; the fcntl module has them only where it was built with new headers."""
_FLOCK = "hhqqi4x"
"""`struct flock` of 64-bit Linux: type, whence, start, length, pid."""

Fields = dict[str, "int | bool | str | None"]


def write_record(folder: int, name: str, fields: Fields) -> None:
    """Replace a file atomically and durably.

    Args:
        folder: an open descriptor of the folder.
    """
    draft = _write_draft(folder, name, fields)
    os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def claim_record(folder: int, name: str, fields: Fields) -> bool:
    """Create a file durably; False if it exists already.

    A link is as exclusive as O_EXCL, and readers never see a partial file.
    """
    draft = _write_draft(folder, name, fields)
    try:
        os.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except FileExistsError:
        return False
    finally:
        os.unlink(draft, dir_fd=folder)
    os.fsync(folder)
    return True


def to_json(fields: Fields) -> str:
    """A flat object as JSON; importing `json` would cost each shim as much memory as all of its own code."""
    members = ", ".join(f'"{name}": {_to_json(field)}' for name, field in {"format": FORMAT, **fields}.items())
    return "{" + members + "}\n"


def _to_json(field: int | bool | str | None) -> str:
    if field is None:
        return "null"
    if isinstance(field, bool):
        return "true" if field else "false"
    if isinstance(field, int):
        return str(field)
    return '"' + "".join(_escape(character) for character in field) + '"'


def _escape(character: str) -> str:
    if " " <= character <= "~" and character not in '"\\':
        return character
    return f"\\u{ord(character):04x}" if ord(character) <= 0xFFFF else "?"


def _write_draft(folder: int, name: str, fields: Fields) -> str:
    draft = f".{name}.{os.getpid()}"
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644, dir_fd=folder)
    try:
        os.write(file, to_json(fields).encode())
        os.fsync(file)
    finally:
        os.close(file)
    return draft


def take_lock(file: int) -> bool:
    """Lock a file that is open for writing, without waiting; False if it is locked already."""
    try:
        fcntl.fcntl(file, _SET, struct.pack(_FLOCK, fcntl.F_WRLCK, 0, 0, 0, 0))
    except (BlockingIOError, PermissionError):
        return False
    return True


def is_locked(path: str) -> bool:
    """Whether a file is locked; False if it does not exist. Only tests the lock, so that no start can fail because of
    it."""
    try:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        answer = fcntl.fcntl(file, _GET, struct.pack(_FLOCK, fcntl.F_WRLCK, 0, 0, 0, 0))
    finally:
        os.close(file)
    return int(struct.unpack(_FLOCK, answer)[0]) != fcntl.F_UNLCK
