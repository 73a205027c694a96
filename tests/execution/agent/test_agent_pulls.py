"""Image pulls: command lines, credentials, and the meaning of Podman's messages."""

import base64
import json
from pathlib import Path

import pytest

from aliquot.execution.agent.isolation.containers import Runtime
from aliquot.execution.agent.isolation.pulls import (
    credentials_file,
    failure_of,
    may_be_insecure,
    pull_commands,
    registry_of,
)
from aliquot_schema.cluster.launching import (
    IMAGE_FAILED,
    IMAGE_NO_SPACE,
    IMAGE_NOT_FOUND,
    IMAGE_UNAUTHORIZED,
    REGISTRY_UNREACHABLE,
)

IMAGE = "ghcr.io/lab/train:3"


def test_the_registry_of_an_image_is_read_from_its_name() -> None:
    for image, registry in (
        ("python", "docker.io"),
        ("lab/train", "docker.io"),
        (IMAGE, "ghcr.io"),
        ("docker://quay.io/x/y@sha256:ab", "quay.io"),
        ("localhost:5000/x", "localhost:5000"),
        ("registry:5000/x:1", "registry:5000"),
    ):
        assert registry_of(image) == registry


@pytest.mark.parametrize("registry", ["localhost", "localhost:5000", "127.0.0.1:5000", "127.9.9.9", "[::1]:5000"])
def test_registries_on_loopback_may_lack_tls(registry: str) -> None:
    assert may_be_insecure(registry, ())


@pytest.mark.parametrize("registry", ["ghcr.io", "10.0.0.1:5000", "localhost.evil.org", "127.0.0.1.evil.org:5000", ""])
def test_other_registries_need_tls_unless_configured_as_insecure(registry: str) -> None:
    assert not may_be_insecure(registry, ("registry.lab:5000",))
    assert may_be_insecure(registry, (registry,))
    assert not may_be_insecure("registry.lab", ("registry.lab:5000",))


def test_only_the_pull_command_gets_credentials_and_may_skip_tls() -> None:
    found = pull_commands(Runtime.PODMAN, "/p", "127.0.0.1:5/x", credentials=Path("/run/c"), insecure=())
    assert found is not None
    assert found.fetch == [
        *("/p", "--log-level=error", "pull", "--authfile=/run/c", "--tls-verify=false", "127.0.0.1:5/x"),
    ]
    assert found.has == ["/p", "--log-level=error", "image", "exists", "127.0.0.1:5/x"]
    plain = pull_commands(Runtime.PODMAN, "/p", IMAGE, credentials=None, insecure=())
    assert plain is not None
    assert plain.fetch == ["/p", "--log-level=error", "pull", IMAGE]
    assert pull_commands(Runtime.APPTAINER, "/p", IMAGE, credentials=None, insecure=()) is None


def test_credentials_are_a_file_or_a_user_with_a_password() -> None:
    file = '{"auths": {"ghcr.io": {"auth": "eA=="}}}'
    assert credentials_file(file, IMAGE) == file.encode()
    made = json.loads(credentials_file("ann:open:sesame\n", IMAGE))
    assert base64.b64decode(made["auths"]["ghcr.io"]["auth"]) == b"ann:open:sesame"


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("Error: reading manifest 3 in ghcr.io/lab/train: manifest unknown", IMAGE_NOT_FOUND, "not found in ghcr.io"),
        ('Error: short-name "x" did not resolve to an alias', IMAGE_NOT_FOUND, "check its name"),
        ("Error: reading manifest 3: unauthorized: authentication required", IMAGE_UNAUTHORIZED, "registry.json"),
        ("Error: requested access to the resource is denied", IMAGE_UNAUTHORIZED, "registry.json"),
        ('Error: Get "https://x/v2/": dial tcp: lookup x: no such host', REGISTRY_UNREACHABLE, "try again later"),
        ("it took longer than 3600 s", REGISTRY_UNREACHABLE, "try again later"),
        ("Error: x509: certificate signed by unknown authority", REGISTRY_UNREACHABLE, "insecure-registries"),
        ("Error: server gave HTTP response to HTTPS client", REGISTRY_UNREACHABLE, "insecure-registries"),
        ("Error: writing blob: write /x: no space left on device", IMAGE_NO_SPACE, "no space left"),
        ("the program was ended by signal 9", IMAGE_FAILED, "could not be fetched"),
    ],
)
def test_a_failed_pull_says_what_to_do(text: str, code: str, words: str) -> None:
    found, message = failure_of(IMAGE, text)
    assert found == code
    assert words in message
    assert message.endswith(f": {text.removeprefix('Error: ')}")


def test_localhost_in_an_image_name_is_not_a_registry() -> None:
    text = "Error: dial tcp 127.0.0.1:443: connect: connection refused"
    code, message = failure_of("localhost/x:1", text)
    assert (code, "not on the node" in message) == (IMAGE_NOT_FOUND, True)
    assert failure_of("localhost:5000/x:1", text)[0] == REGISTRY_UNREACHABLE
