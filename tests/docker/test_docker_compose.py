"""The installation of `docker/compose.yaml`: its commands run in order, out of the images' own folders."""

import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from docker_compose import Composition
from docker_image import Stage
from store_postgres import in_memory, postgres_cluster

WAIT_S = 120.0


@pytest.fixture
def composition(images: Mapping[str, Stage], tmp_path: Path) -> Iterator[Composition]:
    with postgres_cluster(parent=in_memory()) as postgres, postgres.database() as database:
        made = Composition(tmp_path, images=images, port=_free_port(), database=database)
        try:
            yield made
        finally:
            made.stop()


def test_two_compose_nodes_join_and_run_submitted_sessions(composition: Composition) -> None:
    composition.run("certificate")
    composition.start("server")
    _until(lambda: composition.health("server") == 0, composition, "server")
    composition.run("keys")
    for node in ("node-1", "node-2"):
        assert composition.health(node) == 1
        composition.start(node)
    for node in ("node-1", "node-2"):
        _until(lambda node=node: composition.health(node) == 0, composition, node)
    agents = json.loads(composition.exec("server", "aliquot", "agents", "list", "--json"))
    assert sorted(agent["id"] for agent in agents) == ["node-1", "node-2"]
    followed = ["-r", "cuda.shares=0.5", "--follow", "--", "sh", "-c", "echo I have $CUDA_VISIBLE_DEVICES"]
    assert composition.exec("server", "aliquot", "session", "create", *followed).startswith("I have ")
    assert "aliquot_" in composition.scraped()
    # Existing files are kept.
    before = {path.name: path.read_bytes() for path in composition.configuration.iterdir()}
    composition.run("certificate")
    composition.run("keys")
    assert {path.name: path.read_bytes() for path in composition.configuration.iterdir()} == before
    assert {path.stat().st_mode & 0o077 for path in composition.configuration.iterdir()} == {0}


def _until(is_so: Callable[[], bool], composition: Composition, service: str) -> None:
    until = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < until, composition.log(service)
        time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
