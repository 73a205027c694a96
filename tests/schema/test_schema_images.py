"""Image labels, and an agent's image limit."""

import pytest
from msgspec.structs import replace

from aliquot_schema.cluster.agents import Capabilities, _capabilities_fault
from aliquot_schema.resources.confinement import IMAGES_MAX, image_label


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("python", "docker.io/library/python:latest"),
        ("python:3.12", "docker.io/library/python:3.12"),
        ("docker://lab/train:3", "docker.io/lab/train:3"),
        ("docker.io/library/python:3.12", "docker.io/library/python:3.12"),
        ("ghcr.io/lab/train", "ghcr.io/lab/train:latest"),
        ("host:5000/train", "host:5000/train:latest"),
        ("localhost/tiny:1", "localhost/tiny:1"),
        ("ghcr.io/lab/train@sha256:00", "ghcr.io/lab/train@sha256:00"),
    ],
)
def test_all_spellings_of_an_image_have_the_same_label(name: str, full: str) -> None:
    assert image_label(name) == f"aliquot.image.{full}"


def test_an_agent_with_too_many_or_invalid_images_is_refused() -> None:
    few = Capabilities(images=("localhost/tiny:1",))
    assert _capabilities_fault(few) is None
    many = replace(few, images=tuple(f"localhost/tiny:{number}" for number in range(IMAGES_MAX + 1)))
    assert "images" in str(_capabilities_fault(many))
    assert "image" in str(_capabilities_fault(replace(few, images=("x" * 1000,))))
    assert "images" in str(_capabilities_fault(replace(few, images=("a\nb",))))
