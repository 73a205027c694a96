"""Real servers, each with its own folder and port."""

import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer
from store_postgres import PostgresCluster, postgres_cluster

ACCELERATORS = Path(__file__).parents[1] / "data" / "accelerators"
FAKE_NVML: Final = Path(__file__).parents[1] / "execution" / "devices" / "fake_nvml.c"
CUSTOM: Final = """
import aliquot.execution.devices.nvml_devices as readings
import aliquot.service.agents.reaper as reaper
import aliquot.service.alerts.observation as observation
readings.in_initial_pid_namespace = lambda proc: True
reaper.INTERVAL_S = 1.0
observation.EVERY_S = 0.5
observation.RECORDED_US = 0
"""
"""A container's pids differ from the driver's; the fake's do not. Inspections and sums are frequent."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def two_gpus(anyio_backend: str) -> AsyncIterator[OwnServer]:
    """One agent with the two mock GPUs of the README."""
    async with OwnServer("--accelerators", str(ACCELERATORS / "two_gpus.toml")) as server:
        await joined(server, agents=1)
        yield server


@pytest.fixture
async def demo(anyio_backend: str) -> AsyncIterator[OwnServer]:
    """Two mock nodes with eight H100 each."""
    async with OwnServer("--demo") as server:
        await joined(server, agents=2)
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresCluster]:
    """A PostgreSQL on disk with fsync: some tests restart it under load."""
    with postgres_cluster() as cluster:
        yield cluster


@pytest.fixture
def database_url(postgres: PostgresCluster) -> str:
    """A new database."""
    return postgres.new_database()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build the stand-in for NVIDIA's library")
    path = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, FAKE_NVML, "-ldl"], check=True, timeout=120)
    return path


@pytest.fixture
def machine(library: Path) -> Iterator[Path]:
    """A folder with the library, where `holders/GPU/PID` is a process on a GPU with its memory."""
    folder = Path(tempfile.mkdtemp(prefix="aliquot-gpus-"))
    shutil.copy(library, folder)
    for gpu in "01":
        (folder / "holders" / gpu).mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(CUSTOM)
    yield folder
    shutil.rmtree(folder)


async def joined(server: OwnServer, *, agents: int) -> None:
    async with server.client() as client:
        await until_joined(client, agents=agents)
