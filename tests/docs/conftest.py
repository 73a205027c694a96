"""One server with the demo cluster for all pages, and the built pages."""

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import docs_tree  # noqa: F401 # makes the generator known
from aliquot.cli.main_job.cluster_view import until_joined
from aliquot.cli.main_job.own_server import OwnServer


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
async def demo(anyio_backend: str) -> AsyncIterator[OwnServer]:
    """Two mock nodes with eight H100 each."""
    async with OwnServer("--demo") as running:
        async with running.client() as client:
            await until_joined(client, agents=2)
        yield running


@pytest.fixture
def shell_environment(demo: OwnServer, tmp_path: Path) -> dict[str, str]:
    """What somebody at the server's machine has, with a home of his own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ALIQUOT_", "SLURM_"))}
    return kept | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "ALIQUOT_SERVER": demo.url,
        "ALIQUOT_TOKEN_FILE": str(demo.data_folder / "token"),
        "COLUMNS": "200",
    }


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the built pages."""
    from docs_build import built_pages

    return built_pages(tmp_path_factory.mktemp("docs"))
