"""Real containers; `scripts/test --long` installs Podman. Each module's fixture `podman` chooses the account."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from own_containers import Containers
from own_registry import LAYER_BYTES, PASSED_BYTES, Registry, StallingProxy, registry, stalling_proxy


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def images(podman: Containers) -> Iterator[Registry]:
    """A registry with an image of one large layer."""
    with registry() as found:
        found.push_large(podman, "large:1", layer_bytes=LAYER_BYTES)
        yield found


@pytest.fixture
def gate(images: Registry) -> Iterator[StallingProxy]:
    """A proxy of that registry, which holds back the end of the layer."""
    with stalling_proxy(images.port, bytes_max=PASSED_BYTES) as found:
        yield found


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that the account can access."""
    folder = Path(tempfile.mkdtemp(prefix="aliquot-agent-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)
