"""One server per database file: a lock that the kernel drops when its holder is gone."""

import fcntl
import os
from pathlib import Path
from typing import Self

from aliquot.service.ports import StoreUnavailable


class FileLock:
    """Held from `take` to `release`. The file stays; it names the process that holds it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: Path) -> Self:
        """Take the lock, or say who has it.

        Raises:
            StoreUnavailable: another process, or another store of this one, holds it.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise StoreUnavailable(
                f"another server (process {holder or 'unknown'}) uses it; "
                "stop that one, or start this one with a data folder of its own; "
                "to look into it while it runs, have it copied: `aliquot db copy`"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        """Let the next one in."""
        os.close(self._descriptor)
