"""Images that are pulled from a real registry on loopback, by real agents and Podman of an ordinary account."""

from collections.abc import Iterator

import pytest

from long_tests import LONG
from own_containers import Containers, containers
from own_registry import Registry, held, registry

pytestmark = [pytest.mark.anyio, LONG]


@pytest.fixture(scope="module")
def podman() -> Iterator[Containers]:
    with containers(as_root=False) as found:
        yield found


@pytest.fixture(scope="module")
def images(podman: Containers) -> Iterator[Registry]:
    with registry() as found:
        yield found


def test_the_registry_gives_what_was_pushed(podman: Containers, images: Registry) -> None:
    name = images.push_large(podman, "large:1", layer_bytes=1 << 20)
    with held(images.port, bytes_max=4096) as gate:
        gate.go()
        through = images.name("large:1", port=gate.port)
        podman.podman("pull", "--tls-verify=false", through)
        assert through in podman.podman("images", "--format={{.Repository}}:{{.Tag}}").split()
        podman.podman("rmi", "--force", through)
    assert name not in podman.podman("images", "--format={{.Repository}}:{{.Tag}}").split()
