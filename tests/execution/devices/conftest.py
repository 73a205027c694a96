"""Example device files, and a driver that is absent."""

import ctypes
from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest

from devices_driver import FakeDriver, compiled
from devices_files import write

DATA = Path(__file__).parents[2] / "data" / "accelerators"


@pytest.fixture
def accelerators() -> Path:
    """The folder with the example files."""
    return DATA


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A root with `/proc` and `/sys` of two NUMA nodes with four CPUs each and 16 GiB, without limits."""
    files = {
        "proc/cpuinfo": "processor\t: 0\nmodel name\t: Example CPU 9000\n",
        "proc/meminfo": "MemTotal:       16777216 kB\nMemFree:  100 kB\nMemAvailable:   12582912 kB\n",
        "proc/self/cgroup": "0::/\n",
        "proc/stat": "cpu  80 0 0 80 0 0 0 0 0 0\n" + "".join(f"cpu{n} 10 0 0 10 0 0 0 0 0 0\n" for n in range(8)),
        "sys/devices/system/node/node0/cpulist": "0-3\n",
        "sys/devices/system/node/node1/cpulist": "4-7\n",
    }
    for name, text in files.items():
        write(tmp_path / name, text)
    return tmp_path


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], object]], None]:
    """Set what pynvml gets when it loads the driver's library, whatever this machine has."""

    def put(loaded: Callable[[str], object]) -> None:
        monkeypatch.setattr(pynvml, "nvmlLib", None)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        monkeypatch.setattr(pynvml, "CDLL", loaded)

    return put


@pytest.fixture
def driver(library: Path, load: Callable[[Callable[[str], object]], None]) -> FakeDriver:
    loaded = ctypes.CDLL(str(library))
    load(lambda name: loaded)
    return FakeDriver(loaded)
