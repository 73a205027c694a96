"""For the tests of commands that ask a server: one that runs, of all of them."""

from collections.abc import Iterator

import pytest

from rest_server import RestServer, rest_server


@pytest.fixture(scope="session")
def demo_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    """Two nodes with eight mock GPUs each. A test gives back what it takes."""
    with rest_server(tmp_path_factory.mktemp("demo")) as running:
        yield running
