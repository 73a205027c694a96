"""A small disk of its own, where the machine lets us mount one."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, *, megabytes: int) -> Iterator[Path]:
    """A file system in memory at a folder."""
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
    """As after an error of the disk: nothing can be written to a small disk meanwhile."""
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)


def fill(folder: Path, *, leaving: int) -> Path:
    """A file that fills the disk except for a number of bytes."""
    ballast = folder / "ballast"
    with ballast.open("wb") as file:
        free = os.statvfs(folder)
        size = max(free.f_bavail * free.f_frsize - leaving, 0)
        try:
            while size > 0:
                size -= file.write(b"\0" * min(size, 2**20))
            file.flush()
        except OSError:
            pass  # another process has taken the last of it
    return ballast
