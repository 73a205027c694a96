"""Accelerators' files, and a driver that is not there."""

from pathlib import Path

import pytest

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
