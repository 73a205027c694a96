"""The images of `docker/Dockerfile`, as folders."""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from docker_image import Building, Stage


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Stage]]:
    """Every stage, built by its own commands in a fresh folder without any installed package."""
    if shutil.which("npm") is None:
        pytest.skip("the images hold the dashboard, and npm is not here to build it")
    folder = tmp_path_factory.mktemp("images")
    building = Building(folder, leaves_out=frozenset() if _is_debian_12() else frozenset({"apt-get"}))
    building.build()
    yield building.stages
    shutil.rmtree(folder)


def _is_debian_12() -> bool:
    release = Path("/etc/os-release").read_text(encoding="utf-8")
    return os.geteuid() == 0 and "VERSION_CODENAME=bookworm" in release
