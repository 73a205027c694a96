"""One running server, shared by the tests of commands that need one."""

from collections.abc import Iterator

import pytest

from rest_server import RestServer, rest_server


@pytest.fixture(scope="session")
def demo_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    """Two nodes with eight mock GPUs each. Tests release their GPUs."""
    with rest_server(tmp_path_factory.mktemp("demo")) as running:
        yield running
