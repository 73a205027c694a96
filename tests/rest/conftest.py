"""Servers of the REST tests: one with known content, and two for random requests."""

from collections.abc import Iterator

import pytest

from rest_server import RestServer, rest_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    with rest_server(tmp_path_factory.mktemp("rest")) as running:
        yield running


@pytest.fixture(scope="session")
def explored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    """A server that tests may change freely."""
    with rest_server(tmp_path_factory.mktemp("explored")) as running:
        yield running


@pytest.fixture(scope="session")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    """A server that never runs submissions."""
    with rest_server(tmp_path_factory.mktemp("stopped"), "--stopped") as running:
        yield running
