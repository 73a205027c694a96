"""A small tmpfs as a disk, where the machine allows mounts."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, *, megabytes: int) -> Iterator[Path]:
    """A tmpfs mounted at a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0711", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root of a machine that allows it can mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Remount a small disk read-only, as after a disk error."""
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)


def fill(folder: Path, *, leaving: int) -> Path:
    """Write a file that leaves only this number of bytes free."""
    ballast = folder / "ballast"
    with ballast.open("wb") as file:
        free = os.statvfs(folder)
        size = max(free.f_bavail * free.f_frsize - leaving, 0)
        try:
            while size > 0:
                size -= file.write(b"\0" * min(size, 2**20))
            file.flush()
        except OSError:
            pass  # another process took the last bytes
    return ballast
