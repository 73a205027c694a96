"""A stand-in for NVIDIA's library, compiled from `fake_nvml.c`, and its switches."""

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

SOURCE: Final = Path(__file__).parents[1] / "execution" / "devices" / "fake_nvml.c"


class FakeDriver:
    """The switches of the compiled library."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        library.fake_reset()

    def set(self, name: str, value: int) -> None:
        assert self._library.fake_set(name.encode(), value) == 0, f"no switch {name}"

    def users(self) -> int:
        """How many times the library was initialised and not shut down."""
        return int(self._library.fake_users())


def compiled(folder: Path) -> Path:
    """The library, under NVIDIA's name."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build the stand-in for NVIDIA's library")
    path = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, SOURCE], check=True, timeout=120)
    return path
