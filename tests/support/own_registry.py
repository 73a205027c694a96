"""A real registry of container images for tests, on loopback: Debian's docker-registry with a folder of its own.

`StallingProxy` is a proxy of a registry that holds back the bytes of large answers until a test releases them.
"""

import json
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from own_containers import IMAGE, Containers

USER: Final = "ann"
PASSWORD: Final = "opensesame"
_HASH: Final = "$2b$05$abcdefghijklmnopqrstuuQbLfdQZSxZ9gjhA5V9o8Tyc6aQRO0Qi"
"""Of the password, by bcrypt."""
LAYER_BYTES: Final = 8 << 20
"""Size of the layer of a large image."""
PASSED_BYTES: Final = 2 << 20
"""The part that a gate passes."""
_PATIENCE_S: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """A running registry."""

    port: int
    has_users: bool

    def name(self, image: str, *, port: int | None = None) -> str:
        """The full name of an image in it, like `tiny:1`."""
        return f"127.0.0.1:{self.port if port is None else port}/{image}"

    def push(self, podman: Containers, image: str, *, source: str = IMAGE) -> str:
        """Push an image of the account, and remove it there under the new name; returns the name."""
        name, words = self.name(image), ["--tls-verify=false"]
        if self.has_users:
            words.append(f"--creds={USER}:{PASSWORD}")
        podman.podman("tag", source, name)
        podman.podman("push", *words, name)
        podman.podman("untag", source, name)
        return name

    def push_large(self, podman: Containers, image: str, *, layer_bytes: int) -> str:
        """Push an image with the test image's commands and an incompressible file, and remove it there."""
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            archive = Path(folder, "root.tar")
            podman.podman("save", "--format=oci-dir", "-o", f"/tmp/{Path(folder).name}.saved", IMAGE)
            saved = Path(f"/tmp/{Path(folder).name}.saved")
            try:
                _with_file(_only_layer(saved), archive, layer_bytes)
            finally:
                shutil.rmtree(saved)
            podman.podman("import", "--quiet", str(archive), "localhost/aliquot-test/large:1")
        try:
            return self.push(podman, image, source="localhost/aliquot-test/large:1")
        finally:
            podman.podman("rmi", "--force", "localhost/aliquot-test/large:1")

    def credentials(self) -> str:
        """The credentials, as users write them."""
        return f"{USER}:{PASSWORD}"


def _only_layer(saved: Path) -> Path:
    """The layer of an image in the layout of the Open Container Initiative."""
    index = json.loads((saved / "index.json").read_text())
    manifest = json.loads(_blob(saved, index["manifests"][0]["digest"]).read_text())
    return _blob(saved, manifest["layers"][0]["digest"])


def _blob(saved: Path, digest: str) -> Path:
    return saved / "blobs" / digest.replace(":", "/")


def _with_file(layer: Path, archive: Path, size: int) -> None:
    with tarfile.open(layer) as found, tarfile.open(archive, "w") as written:
        for member in found:
            written.addfile(member, found.extractfile(member) if member.isfile() else None)
        blob = archive.parent / "blob"
        blob.write_bytes(os.urandom(size))
        written.add(blob, "blob")
    archive.chmod(0o644)


@contextmanager
def registry(*, has_users: bool = False) -> Iterator[Registry]:
    """A registry; the test is skipped, with the reason, where none is installed.

    Args:
        has_users: whether it knows `USER` alone, by password.
    """
    program = shutil.which(os.environ.get("ALIQUOT_TESTS_REGISTRY", "docker-registry"))
    if program is None:
        pytest.skip("docker-registry is not there; scripts/test --long unpacks it")
    port = _free_port()
    with tempfile.TemporaryDirectory(prefix="aliquot-registry-") as folder:
        settings: dict[str, object] = {
            "version": 0.1,
            "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": f"{folder}/images"}},
            "http": {"addr": f"127.0.0.1:{port}"},
        }
        if has_users:
            Path(folder, "users").write_text(f"{USER}:{_HASH}\n")
            settings["auth"] = {"htpasswd": {"realm": "tests", "path": f"{folder}/users"}}
        Path(folder, "registry.yml").write_text(json.dumps(settings))  # JSON is YAML
        with open(f"{folder}/log", "wb") as log:
            process = subprocess.Popen(
                [program, "serve", f"{folder}/registry.yml"], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            _until_open(port, process, Path(folder, "log"))
            yield Registry(port=port, has_users=has_users)
        finally:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _until_open(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        with suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        time.sleep(0.02)
    raise AssertionError(f"the registry is not open after {_PATIENCE_S:g} s: {log.read_text()}")


class StallingProxy:
    """A proxy of a registry that holds back each answer's bytes beyond `bytes_max`, until `resume`.

    Args:
        port: of the registry.
        bytes_max: above the size of manifests, below that of the layer in question.
    """

    def __init__(self, port: int, *, bytes_max: int) -> None:
        self._target = port
        self._bytes_max = bytes_max
        self._is_resumed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def resume(self) -> None:
        """Forward everything."""
        self._is_resumed.set()

    def close(self) -> None:
        """End all connections."""
        self._is_resumed.set()
        for one in (self._listener, *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += [client, server]
                threading.Thread(target=self._copy, args=(client, server, None), daemon=True).start()
                threading.Thread(target=self._copy, args=(server, client, self._bytes_max), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket, limit: int | None) -> None:
        passed = 0
        with suppress(OSError):
            while data := source.recv(65_536):
                passed += len(data)
                if limit is not None and passed > limit:
                    self._is_resumed.wait()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


@contextmanager
def stalling_proxy(port: int, *, bytes_max: int) -> Iterator[StallingProxy]:
    """A `StallingProxy`, closed afterwards."""
    gate = StallingProxy(port, bytes_max=bytes_max)
    try:
        yield gate
    finally:
        gate.close()
