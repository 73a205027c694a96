"""A folder that job users can traverse; processes left below it are killed."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from aliquot.cli.acceptance.checks import kill_mentioning


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def agent_home() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="aliquot-remote-"))
    home.chmod(0o711)
    yield home / "agent"
    kill_mentioning(str(home))
    shutil.rmtree(home)
